"""Handling of Ctrl-C and SIGTERM by commands that end between two steps, so that the last step is complete.

The first signal is noted, and interrupts only queries; the second one interrupts anything.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Generator
from types import FrameType

__all__ = ["Interrupts", "noticing"]


class Interrupts:
    def __init__(self) -> None:
        self.seen = False
        self._breaks = False

    def notice(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - it is called as a handler
        if self.seen or self._breaks:
            self.seen = True
            raise KeyboardInterrupt
        self.seen = True

    def ask(self, act: Callable[[], None]) -> None:
        """Run a step that may be left undone: an interrupt ends it, and sets `seen` for the code behind it."""
        try:
            try:
                self._breaks = True  # before the check, so that no signal is lost in between
                if not self.seen:
                    act()
            finally:
                self._breaks = False
        except KeyboardInterrupt:
            self.seen = True


@contextlib.contextmanager
def noticing() -> Generator[Interrupts]:
    interrupts = Interrupts()
    before = {number: signal.signal(number, interrupts.notice) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
