"""What is kept of decisions may be asked by anybody while somebody else stores another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from delta_log.records.keyed_table import Row
from delta_log.transactions.transaction_id import TransactionKey
from delta_log.transactions.transaction_log import REMEMBERED, Committed, Decisions, row_of


def key(epoch: int) -> TransactionKey:
    return TransactionKey.fresh("x", epoch, 1, epoch)


def row(epoch: int) -> Row:
    return row_of(Committed(key(epoch), (), (), [], 2, epoch))


class Slow(tuple[Any, ...]):
    """A row that is looked at so slowly that something is stored meanwhile."""

    __slots__ = ()

    @staticmethod
    def meanwhile() -> None:
        """Nothing, unless it is set."""

    def __getitem__(self, at: Any) -> Any:
        Slow.meanwhile()
        return super().__getitem__(at)


QUESTIONS: dict[str, Callable[[Decisions], object]] = {
    "epoch": lambda decisions: decisions.epoch("x"),
    "version": lambda decisions: decisions.version("x"),
    "what": lambda decisions: decisions.what(key(7), 9, 0),
    "row": lambda decisions: decisions.row(key(1)),
    "committed": lambda decisions: decisions.committed(key(1)),
    "timed_out": lambda decisions: decisions.timed_out(key(1)),
    "overtime_rows": lambda decisions: decisions.overtime_rows([key(1)], 3),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("change", ["another", "the same slot", "all of it is forgotten"])
def test_a_question_is_answered_while_something_is_stored(question: str, change: str, monkeypatch: pytest.MonkeyPatch):
    """As it was before that, or as it is behind it."""
    stored = {"another": [row(2), row(3)], "the same slot": [row(1 + REMEMBERED)]}.get(change, [])
    states = ([row(0), row(1)], [row(0), row(1), *stored] if stored else [])
    answers = [QUESTIONS[question](Decisions(state)) for state in states]
    decisions = Decisions([row(0), row(1)])
    slow = [Slow(row(0)), Slow(row(1))]
    for each in slow:
        decisions.replay(each)

    def store() -> None:
        monkeypatch.setattr(Slow, "meanwhile", staticmethod(lambda: None))
        for each in stored:
            decisions.replay(each)
        if not stored:
            decisions.forget([row(0), row(1)])

    monkeypatch.setattr(Slow, "meanwhile", staticmethod(store))
    assert QUESTIONS[question](decisions) in answers
