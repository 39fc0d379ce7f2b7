"""A deadline for every waiting task, with one timer for all: most never reach theirs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class RequestTimeout:
    """Used by one event loop. All waits have the same timeout, so the first that started is due first."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._due: dict[asyncio.Future[Any], float] = {}
        self._expired: set[asyncio.Future[Any]] = set()
        self._timed = False

    async def wait(self, awaited: Awaitable[T]) -> T:
        """Await with the timeout; after a TimeoutError the outcome of the awaited call is unknown."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can wait")
        self.start(task)
        try:
            return await awaited
        except asyncio.CancelledError:
            if task not in self._expired or task.uncancel() > 0:
                raise
            raise TimeoutError from None
        finally:
            self.cancel(task)
            self._expired.discard(task)

    def start(self, future: asyncio.Future[Any]) -> None:
        """Start its deadline, until `cancel`: then a task is cancelled, any other future gets a TimeoutError."""
        loop = future.get_loop()
        self._due[future] = loop.time() + self.seconds
        if not self._timed:
            self._timed = True
            loop.call_later(self.seconds, self._sweep, loop)

    def cancel(self, future: asyncio.Future[Any]) -> None:
        self._due.pop(future, None)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for future, due in list(self._due.items()):
            if due > now:
                loop.call_later(due - now, self._sweep, loop)
                return
            del self._due[future]
            if isinstance(future, asyncio.Task):
                self._expired.add(future)
                future.cancel()
            elif not future.done():
                future.set_exception(TimeoutError())
        self._timed = False
