"""A journal in which neighbouring groups are unreadable, so nothing says what they gave out. Pure.

A start goes on behind them, and skips what they may have given out. What a repair adds is that it is done when nobody
is served, is printed before, and that the tables of topics say of themselves what they lack since.
"""

from __future__ import annotations

from collections.abc import Sequence

from delta_log.journal.unreadable_groups import TableEnds, plan_doubts
from delta_log.operations.check.read_journal import JournalLook
from delta_log.operations.repair.actions import SettleJournal


def plan_settling(look: JournalLook, tables: Sequence[TableEnds]) -> SettleJournal | None:
    """None where everything that was given out is known."""
    if not look.found.untraceable:
        return None
    doubts = plan_doubts(look.found.frames, look.found.unread, tables)
    return SettleJournal(tuple(look.found.untraceable), tuple(doubts))
