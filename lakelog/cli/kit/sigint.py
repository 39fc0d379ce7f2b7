"""Closes the race between SIGINT and a blocking wait. Knows signals and a pipe, and nothing of the waits.

Python handles a signal between two of its instructions, or when a system call is interrupted by it. A signal between
the last check and the system call interrupts nothing, and is handled only after the wait, however long that is. So a
thread is notified of each signal, too, and signals the main thread until it has run a handler.
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

#: A signal that is ignored by default. Python handles pending signals of lower numbers, as SIGINT, first.
_NUDGE: Final = signal.SIGURG
_HEEDED: Final = frozenset({signal.SIGINT, signal.SIGTERM})
#: A main thread that does not block has handled its signals by then.
_PAUSE_S: Final = 0.05
_MOST_AT_ONCE: Final = 64


@contextlib.contextmanager
def sigint_guard() -> Generator[None]:
    """Let Ctrl-C interrupt a wait within the block at any moment.

    An event loop with its own wakeup descriptor keeps it while it runs: called inside of such a loop, or outside the
    main thread, the guard does nothing.
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
        """Note that the main thread handles signals: it has handled the earlier ones, too."""
        self._has_looked = True

    def run(self) -> None:
        while not self.ended.is_set():
            if _HEEDED.intersection(os.read(self._hears, _MOST_AT_ONCE)):
                self._nudge()

    def _nudge(self) -> None:
        self._has_looked = False
        while not self.ended.wait(_PAUSE_S) and not self._has_looked:
            signal.pthread_kill(threading.main_thread().ident or 0, _NUDGE)
