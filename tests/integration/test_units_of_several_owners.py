"""A unit whose parts different owners bring to their tables, one after the other or at once, is whole all the same.

The first writes units and is replaced, without knowing it; the second dies before it is done; the third finds what is
left. Each table is brought up by one of them, by the second who never learns of it, or by two, some units each.
"""

from __future__ import annotations

from contextlib import nullcontext, suppress
from itertools import product
from typing import Final
from unittest import mock

import pytest

from delta_log import Log
from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.model.errors import LakelogError, NotOwner
from delta_log.stores import MemoryStore
from delta_log.topics.topic_state import TopicState
from tests.support.logs import Place, crash
from tests.support.unit_turns import Turns, check_units

TABLED_BY: Final = ("the first", "the second", "the second, untold", "the second and the third")
PARTS: Final = ("t", "u", "__marks", "__readers")
UNITS: Final = 3


def live_of(log: Log, name: str) -> TopicState:
    return next(live for live in log._running.catalog.lives() if live.name == name)


def bring_up(place: Place, log: Log, names: list[str], *, told: bool = True) -> None:
    for name in names:
        live = live_of(log, name)
        if not told:
            place.fail("create", f"topics/{name}/_delta_log", "answer lost")
            place.fail("read", f"topics/{name}/_delta_log", "refused", times=1000)
        with nullcontext() if told else suppress(LakelogError):
            log._running.tabler.bring_up(live)
        place.faults.clear()


def three_owners(by: list[str]) -> tuple[list[Log], int]:
    """The last of them has just begun; and how many units were promised."""
    place = Place(None, store=MemoryStore())
    chosen = {who: [part for part, its in zip(PARTS, by, strict=True) if its == who] for who in TABLED_BY}
    first = place.open()
    turns = Turns(first)
    turns.take()
    first.flush()
    for _ in range(UNITS):
        turns.take()
    second = place.open()
    bring_up(place, first, chosen["the first"])
    bring_up(place, second, chosen["the second"])
    bring_up(place, second, chosen["the second, untold"], told=False)
    for name in chosen["the second and the third"]:
        assert second._running.tabling.commit(live_of(second, name), 1)
    promised = turns.next
    with pytest.raises(NotOwner):
        turns.take()
    return [first, second, place.open()], promised


#: Of any two parts every pair of these is there.
SQUARE: Final = [(i, j, i ^ j, i ^ (0, 2, 3, 1)[j]) for i, j in product(range(4), repeat=2)]


@pytest.mark.parametrize("by", SQUARE, ids=str)
def test_a_unit_is_whole_whoever_brings_its_parts_to_their_tables(by: tuple[int, ...]):
    with mock.patch.object(CommitScheduler, "notice"):
        (*former, third), promised = three_owners([TABLED_BY[its] for its in by])
        for log in former:
            crash(log)
    assert check_units(third, promised) == promised
    turns = Turns(third)
    turns.take()
    third.flush()
    assert check_units(third, promised + 1) == promised + 1
    third.close()
