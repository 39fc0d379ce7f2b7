"""To take a root from whoever owns it where nobody can be kept out, without becoming a log oneself."""

from __future__ import annotations

from delta_log.root.root import Root, claim_epoch, read_topic_defaults


def take_over(place: Root, *, after: int = 0) -> None:
    """Be the later owner, and shut the former one out of the journal: he acknowledges nothing more.

    What he journaled he may still bring to the tables, until he notices. Where a root is locked there is nobody to shut
    out. `after` is an epoch that is known to have been, though `writers/` may not tell of it.
    """
    if place.locks:
        return
    epoch = claim_epoch(place.store, place.store.now_ms(), read_topic_defaults(place.store), after=after)
    journal = place.journal(epoch)
    try:
        journal.recover()
    finally:
        journal.close(empty=False)
