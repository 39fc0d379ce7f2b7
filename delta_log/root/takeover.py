"""Takeover of a root that has no lock, without opening a log on it."""

from __future__ import annotations

from delta_log.root.root import Root, claim_epoch, read_topic_defaults


def take_over(place: Root, *, after: int = 0) -> None:
    """Claim a later epoch and fence the former owner from the journal: it acknowledges nothing more.

    It may still commit what it journaled to the tables, until it notices. A root with a lock has no other owner to
    fence. `after`: an epoch known to have existed, even if `writers/` does not show it.
    """
    if place.locks:
        return
    epoch = claim_epoch(place.store, place.store.now_ms(), read_topic_defaults(place.store), after=after)
    journal = place.journal(epoch)
    try:
        journal.recover()
    finally:
        journal.close(empty=False)
