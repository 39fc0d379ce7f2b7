"""Brings a journal with unreadable groups into the tables."""

from __future__ import annotations

from delta_log.model.errors import TopicClosed
from delta_log.operations.repair.actions import SettleJournal
from delta_log.root.root import Root, read_topic_defaults
from delta_log.runtime.syscalls import Probe
from delta_log.startup.open import Settings, start, stop, take_ownership


def settle_journal(place: Root, cure: SettleJournal, probe: Probe) -> None:
    """Start on the root, which skips the offsets in doubt, flush everything to the tables, and stop.

    Each table in doubt is taken over in the commit that skips its offsets, so a repeat sees that this was done.
    """
    settings = Settings(topic_defaults=read_topic_defaults(place.store), upkeep=False)
    running = start(place, settings, probe=probe)
    stopped = False
    try:
        probe("repair.replayed")
        for name in sorted({doubt.table for doubt in cure.doubts}):
            live = running.catalog.find(name)
            if live is not None:
                take_ownership(running, live)
                probe("repair.table_settled")
        stopped = True
    finally:
        complete = stop(running)
    if stopped and not complete:
        raise TopicClosed("the journal", "not all of it could be brought into the tables", "run the repair again")
