"""Work in the background leaves the interpreter to others between two pieces."""

import sys
import threading
import time
from collections.abc import Iterator

import pytest

from delta_log.runtime.gil import short_turns, yield_gil


@pytest.fixture
def no_switching() -> Iterator[None]:
    """Nobody is made to let go of the interpreter: whoever has it keeps it until he waits for something."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(60.0)
    yield
    sys.setswitchinterval(before)


def work(seconds: float) -> None:
    """Without letting go."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


def test_the_pieces_come_as_they_are():
    assert list(yield_gil(iter(range(5)))) == [0, 1, 2, 3, 4]
    assert list(yield_gil([])) == []


def test_an_error_on_the_way_is_the_callers():
    def pieces() -> Iterator[int]:
        yield 1
        raise ValueError

    paused = yield_gil(pieces())
    assert next(paused) == 1
    with pytest.raises(ValueError, match=r"^$"):
        next(paused)


@pytest.mark.usefixtures("no_switching")
def test_who_waits_for_the_interpreter_gets_it_between_two_pieces():
    """Not at each of them: somebody who wakes up late finds the next pause. A busy machine may wake him later still."""
    assert any(turns_of_another(yield_gil(range(1, 101))) > 50 for _ in range(20))
    assert turns_of_another(iter(range(1, 101))) < 50


def turns_of_another(pieces: Iterator[int]) -> int:
    """In how many of these pieces another thread had the interpreter."""
    turns: list[int] = []
    done = threading.Event()
    under_way = 0

    def wait_for_turns() -> None:
        while not done.is_set():
            turns.append(under_way)
            time.sleep(0)

    waiting = threading.Thread(target=wait_for_turns)
    waiting.start()
    try:
        for under_way in pieces:  # noqa: B007 - the other thread looks at it
            work(0.001)
    finally:
        done.set()
        waiting.join()
    return len(set(turns) - {0})


def test_turns_are_short_as_long_as_any_thread_computes_at_a_stretch():
    before = sys.getswitchinterval()
    with short_turns():
        assert sys.getswitchinterval() == pytest.approx(0.0005)
        with pytest.raises(KeyError), short_turns():
            raise KeyError
        assert sys.getswitchinterval() == pytest.approx(0.0005)
    assert sys.getswitchinterval() == pytest.approx(before)


def test_turns_that_are_short_already_stay_so():
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.0001)
    try:
        chosen = sys.getswitchinterval()
        for _ in range(5):
            with short_turns():
                assert sys.getswitchinterval() == chosen
        assert sys.getswitchinterval() == chosen
    finally:
        sys.setswitchinterval(before)
