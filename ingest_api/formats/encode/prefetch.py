"""Rows that were promised are decoded in threads, a little ahead of who sends them. Knows no format and no route."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Executor
from typing import Final

import pyarrow as pa

from delta_log import PartialFetch
from delta_log.model.errors import OutcomeUnknown

#: Steps that are decoded at once, while one more is sent: the two cores that most have, and one to go on with.
_AT_ONCE: Final = 3

Batches = list[pa.RecordBatch]


class Ahead:
    """One answer's. Used by the loop alone."""

    def __init__(self, begun: PartialFetch, threads: Executor, patience_s: float) -> None:
        self._later = begun.later
        self._ready = begun.first.batches
        self._threads = threads
        self._patience_s = patience_s
        self._loading: deque[asyncio.Future[Batches]] = deque()

    async def begin(self) -> None:
        """Some rows are ready behind this, if there are any: what is wrong with them is told before all else."""
        try:
            self._fill()
            if not self._ready:
                self._ready = await self._next()
        except BaseException:
            await self._settle()
            raise

    async def steps(self) -> AsyncGenerator[Batches]:
        """All rows. What is decoded for nobody takes memory too: this ends behind it."""
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
    """What an answer takes in memory at most."""
    return begun.held(_AT_ONCE + 1)


def _look(loading: asyncio.Future[Batches]) -> None:
    """Its error is told to who waits for it; there may be nobody."""
    if not loading.cancelled():
        loading.exception()
