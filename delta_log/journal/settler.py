"""Settles a write of unknown outcome: tries in a thread of its own until the disk lets it, a second apart at most."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Final

_FIRST_S: Final = 0.05
#: A disk that is well is noticed within this.
LONGEST_PAUSE_S: Final = 1.0


def pauses() -> Iterator[float]:
    """Seconds before each attempt: short first, as most troubles are, and never longer than a second."""
    pause = _FIRST_S
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_S)


class Settler:
    """Calls `attempt`, which raises nothing, until it says that there is nothing left to try, or `stop` is called."""

    def __init__(self, attempt: Callable[[], bool]) -> None:
        self._attempt = attempt
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lakelog-journal-settle", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No attempt is under way when this returns, and none follows."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        for pause in pauses():
            if self._stopped.wait(pause) or self._attempt():
                return
