"""The event that a stop has begun, which ends waits: thousands can listen, and each comes and goes cheaply."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

Wake = Callable[[Any], object]


class Closing(asyncio.Event):
    """Used by one event loop. Has the methods of a future that a wait needs, so that it can stand among futures."""

    def __init__(self) -> None:
        super().__init__()
        self._wakes: set[Wake] = set()

    def set(self) -> None:
        super().set()
        for wake in list(self._wakes):
            wake(self)
        self._wakes.clear()

    def done(self) -> bool:
        return self.is_set()

    def add_done_callback(self, wake: Wake) -> None:
        """Call `wake` when the stop begins, at once if it has."""
        if self.is_set():
            wake(self)
        else:
            self._wakes.add(wake)

    def remove_done_callback(self, wake: Wake) -> None:
        self._wakes.discard(wake)
