"""Ctrl-C that comes in the instant before a wait begins. Knows signals and a pipe, and nothing of what waits.

Python notices a signal between two steps of its own, or when a wait of the system breaks off for it. One that arrives
behind the last look and before the wait breaks nothing off, and is heeded when the wait is over, whenever that is. So a
thread hears of each signal, too, and nudges the main thread until it has looked.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Generator
from types import FrameType
from typing import Final

__all__ = ["sigint_guard"]

#: Where nobody asks for this one nothing happens by it. Of several signals Python looks at lower numbers first.
_NUDGE: Final = signal.SIGURG
_HEEDED: Final = frozenset({signal.SIGINT, signal.SIGTERM})
#: A main thread that does not wait has looked by then.
_PAUSE_S: Final = 0.05
_MOST_AT_ONCE: Final = 64


@contextlib.contextmanager
def sigint_guard() -> Generator[None]:
    """What is waited for inside of the block breaks off by Ctrl-C whenever that comes.

    A loop that hears of signals by itself does so for as long as it runs. Who is called where such a loop runs, or not
    by the main thread, changes nothing.
    """
    if threading.current_thread() is not threading.main_thread() or _somebody_hears():
        yield
        return
    hears, told = os.pipe()
    os.set_blocking(told, False)
    nudging = _Nudging(hears)
    handler = signal.signal(_NUDGE, nudging.notice)
    signal.set_wakeup_fd(told, warn_on_full_buffer=False)
    nudging.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(-1)
        nudging.ended.set()
        os.write(told, b"\0")
        nudging.join()
        signal.signal(_NUDGE, handler)
        os.close(hears)
        os.close(told)


def _somebody_hears() -> bool:
    heard_by = signal.set_wakeup_fd(-1)
    if heard_by != -1:
        signal.set_wakeup_fd(heard_by, warn_on_full_buffer=False)
    return heard_by != -1


class _Nudging(threading.Thread):
    def __init__(self, hears: int) -> None:
        super().__init__(name="lakelog-heeding", daemon=True)
        self.ended = threading.Event()
        self._hears = hears
        self._has_looked = False

    def notice(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - it is called as a handler
        """By the main thread, which has then looked at what came before, too."""
        self._has_looked = True

    def run(self) -> None:
        while not self.ended.is_set():
            if _HEEDED.intersection(os.read(self._hears, _MOST_AT_ONCE)):
                self._nudge()

    def _nudge(self) -> None:
        self._has_looked = False
        while not self.ended.wait(_PAUSE_S) and not self._has_looked:
            signal.pthread_kill(threading.main_thread().ident or 0, _NUDGE)
