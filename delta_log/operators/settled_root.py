"""A root whose journal is brought into the tables though groups of it are unreadable."""

from __future__ import annotations

from delta_log.disk import Probe
from delta_log.errors import TopicClosed
from delta_log.opening import Settings, own, start, stop
from delta_log.operators.cures import SettleJournal
from delta_log.roots import Root, read_topic_defaults


def settle_journal(place: Root, cure: SettleJournal, probe: Probe) -> None:
    """Start on it, which skips what is in doubt, bring all into the tables, and stop.

    Each table in doubt is taken over in the commit that skips its offsets: whoever repeats this sees that it was done.
    """
    settings = Settings(topic_defaults=read_topic_defaults(place.store), upkeep=False)
    running = start(place, settings, probe=probe)
    stopped = False
    try:
        probe("repair.replayed")
        for name in sorted({doubt.table for doubt in cure.doubts}):
            live = running.catalog.find(name)
            if live is not None:
                own(running, live)
                probe("repair.table_settled")
        stopped = True
    finally:
        complete = stop(running)
    if stopped and not complete:
        raise TopicClosed("the journal", "not all of it could be brought into the tables", "run the repair again")
