"""Decodes deferred rows in threads, a little ahead of the sender. Knows no format and no route."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Executor
from typing import Final

import pyarrow as pa

from delta_log import PartialFetch
from delta_log.model.errors import OutcomeUnknown

#: Steps decoded at once, while one more is sent: for two cores, which most machines have, and one in reserve.
_AT_ONCE: Final = 3

Batches = list[pa.RecordBatch]


class Ahead:
    """Rows of an answer. Used by the loop alone."""

    def __init__(self, begun: PartialFetch, threads: Executor, patience_s: float) -> None:
        self._later = begun.later
        self._ready = begun.first.batches
        self._threads = threads
        self._patience_s = patience_s
        self._loading: deque[asyncio.Future[Batches]] = deque()

    async def begin(self) -> None:
        """Wait for the first rows, so that an error in them is raised before the answer begins."""
        try:
            self._fill()
            if not self._ready:
                self._ready = await self._next()
        except BaseException:
            await self._settle()
            raise

    async def steps(self) -> AsyncGenerator[Batches]:
        """Yield all rows. Ends only after the decodes in flight, which take memory even if their rows are unused."""
        try:
            while batches := self._ready:
                self._ready = []
                yield batches
                self._ready = await self._next()
        finally:
            await self._settle()

    async def _next(self) -> Batches:
        if not self._loading:
            return []
        done, _ = await asyncio.wait((self._loading[0],), timeout=self._patience_s)
        if not done:
            raise OutcomeUnknown("the read", f"some of it took more than {self._patience_s:g} s")
        batches = self._loading.popleft().result()
        self._fill()
        return batches

    async def _settle(self) -> None:
        if self._loading:
            await asyncio.wait(self._loading, timeout=self._patience_s)

    def _fill(self) -> None:
        loop = asyncio.get_running_loop()
        while len(self._loading) < _AT_ONCE and (step := self._later.take()) is not None:
            try:
                loading = loop.run_in_executor(self._threads, step.load)
            except BaseException:
                step.drop()
                raise
            loading.add_done_callback(_look)
            self._loading.append(loading)


def held_at_once(begun: PartialFetch) -> int:
    """Return the most memory that an answer takes."""
    return begun.held(_AT_ONCE + 1)


def _look(loading: asyncio.Future[Batches]) -> None:
    """Mark an error as seen: it is raised where the rows are awaited, which an ended answer no longer does."""
    if not loading.cancelled():
        loading.exception()
