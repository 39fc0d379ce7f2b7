"""That a fault is one where it came in time, and that a machine that stood still is given another turn."""

import time

import pytest

from tests.support.in_time import in_time


def test_what_fails_in_time_fails():
    turns: list[int] = []

    def fail(turn: int) -> None:
        turns.append(turn)
        raise AssertionError("a fault")

    with pytest.raises(AssertionError, match="a fault"):
        in_time(60.0, fail)
    assert turns == [0]


def test_what_fails_too_late_has_another_turn():
    def fail_at_first(turn: int) -> int:
        if turn < 2:
            time.sleep(0.002)
            raise AssertionError("the machine stood still")
        return turn

    assert in_time(0.001, fail_at_first) == 2


def test_what_is_always_too_late_is_said():
    def fail(_: int) -> None:
        time.sleep(0.002)
        raise AssertionError

    with pytest.raises(AssertionError, match=r"it never took less than 0\.001 s"):
        in_time(0.001, fail, turns=2)
