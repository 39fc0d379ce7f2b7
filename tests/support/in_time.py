"""What must be done before a time-out of the server is over, done anew where the machine stood still for longer.

    in_time(2.0, lambda turn: begin_and_go_on(f"group-{turn}"))

A fault of what is tested shows in any turn that was in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
TURNS = 10


def in_time(seconds: float, do: Callable[[int], T], *, turns: int = TURNS) -> T:
    """Its answer. It is told the number of its turn, and fails with what it raises where that came in time."""
    for turn in range(turns):
        began = time.monotonic()
        try:
            return do(turn)
        except AssertionError:
            if time.monotonic() - began < seconds:
                raise
    raise AssertionError(f"it never took less than {seconds} s, in {turns} turns")
