"""A deadline for everybody who waits, by one timer for all: most never reach theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class Patience:
    """Used by one loop. All who wait here wait equally long, so whoever came first is due first."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._due: dict[asyncio.Task[object], float] = {}
        self._expired: set[asyncio.Task[object]] = set()
        self._timed = False

    async def wait(self, awaited: Awaitable[T]) -> T:
        """What was awaited; TimeoutError when it took too long, and what became of it is not known then."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can wait")
        loop = task.get_loop()
        self._due[task] = loop.time() + self.seconds
        if not self._timed:
            self._timed = True
            loop.call_later(self.seconds, self._sweep, loop)
        try:
            return await awaited
        except asyncio.CancelledError:
            if task not in self._expired or task.uncancel() > 0:
                raise
            raise TimeoutError from None
        finally:
            self._due.pop(task, None)
            self._expired.discard(task)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task, due in list(self._due.items()):
            if due > now:
                loop.call_later(due - now, self._sweep, loop)
                return
            del self._due[task]
            self._expired.add(task)
            task.cancel()
        self._timed = False
