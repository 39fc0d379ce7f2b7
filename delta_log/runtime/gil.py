"""How work in the background leaves the interpreter to those who wait for an answer.

One thread at a time runs Python. Whoever comes back from a sync while another one computes has to wait until that one
lets go of the interpreter: between two calls of a library it does so for microseconds, too short to be taken, and only
after five milliseconds because it is asked to, which is ten times an append. So long work is cut into pieces, with a
sleep between them. It knows time; it must not know what the work is.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

T = TypeVar("T")

#: Worked at a stretch, or as long as one piece takes.
_STRETCH_S: Final = 0.00025
#: Long enough for whoever waits to wake up and take the interpreter.
_PAUSE_S: Final = 0.0001
#: After so long a thread that computes at a stretch lets go of the interpreter when another wants it.
_TURN_S: Final = 0.0005
#: It is kept in whole microseconds, and cut: so that it comes back as it was.
_HALF_A_TICK_S: Final = 0.0000005
_turns: Final = threading.Lock()
#: Who computes at a stretch, with how often to let go when nobody does.
_computing: Final[list[float]] = []


def yield_gil(pieces: Iterable[T]) -> Iterator[T]:
    """The same pieces; after each that ends a stretch of work others have a moment to go on."""
    began = time.perf_counter()
    for piece in pieces:
        yield piece
        if time.perf_counter() - began >= _STRETCH_S:
            time.sleep(_PAUSE_S)
            began = time.perf_counter()


@contextmanager
def short_turns() -> Generator[None]:
    """While it lasts this thread computes what cannot be cut into pieces: others need not wait for long."""
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
