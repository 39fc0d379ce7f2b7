"""Yields the GIL during long background work so that requests are not delayed.

One thread at a time runs Python. A thread that returns from a sync while another one computes has to wait for the GIL:
between two library calls that one releases it for microseconds, too short to acquire it, and on request only after
five milliseconds, which is ten times an append. So long work is cut into pieces, with a sleep between them. It knows
time; it must not know what the work is.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

#: Time of work without a pause, or that of one piece if longer.
_STRETCH_S: Final = 0.00025
#: Long enough for a waiting thread to wake up and acquire the GIL.
_PAUSE_S: Final = 0.0001
#: Switch interval during `short_turns`: then a computing thread releases the GIL if another wants it.
_TURN_S: Final = 0.0005
#: Python truncates the interval to whole microseconds; adding this restores the exact value.
_HALF_A_TICK_S: Final = 0.0000005
_turns: Final = threading.Lock()
#: An entry for each thread in `short_turns`: the switch interval to restore after the last one.
_computing: Final[list[float]] = []


def yield_gil(pieces: Iterable[T]) -> Iterator[T]:
    """Iterate over the pieces, with a short pause for other threads after each stretch of work."""
    began = time.perf_counter()
    for piece in pieces:
        yield piece
        if time.perf_counter() - began >= _STRETCH_S:
            time.sleep(_PAUSE_S)
            began = time.perf_counter()


@contextmanager
def short_turns() -> Generator[None]:
    """Shorten the switch interval while this thread computes something that cannot be cut into pieces."""
    with _turns:
        _computing.append(_computing[-1] if _computing else sys.getswitchinterval())
        sys.setswitchinterval(min(_TURN_S, _computing[-1]) + _HALF_A_TICK_S)
    try:
        yield
    finally:
        with _turns:
            before = _computing.pop()
            if not _computing:
                sys.setswitchinterval(before + _HALF_A_TICK_S)
