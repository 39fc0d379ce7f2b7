"""Plans the repair of a journal with neighbouring unreadable groups, whose assigned offsets are unknown. Pure.

A start continues after them, and skips the offsets that they may have assigned. A repair does the same without serving
clients, prints it first, and records in the topics' tables which offsets they lack.
"""

from __future__ import annotations

from collections.abc import Sequence

from delta_log.journal.unreadable_groups import TableEnds, plan_doubts
from delta_log.operations.check.read_journal import JournalLook
from delta_log.operations.repair.actions import SettleJournal


def plan_settling(look: JournalLook, tables: Sequence[TableEnds]) -> SettleJournal | None:
    """Plan the cure; None if all assigned offsets are known."""
    if not look.found.untraceable:
        return None
    doubts = plan_doubts(look.found.frames, look.found.unread, tables)
    return SettleJournal(tuple(look.found.untraceable), tuple(doubts))
