"""Settles a write of unknown outcome: retries in a thread of its own until the disk works, at most a second apart."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final

_FIRST_S: Final = 0.05
#: A disk that works again is noticed within this time.
LONGEST_PAUSE_S: Final = 1.0


def pauses() -> Iterator[float]:
    """Seconds before each attempt: short at first, as most failures are, and never longer than a second."""
    pause = _FIRST_S
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_S)


class Settler:
    """Calls `attempt`, which raises nothing, until it returns True or `stop` is called."""

    def __init__(self, attempt: Callable[[], bool]) -> None:
        self._attempt = attempt
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lakelog-journal-settle", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the running attempt; none follows."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        for pause in pauses():
            if self._stopped.wait(pause) or self._attempt():
                return
