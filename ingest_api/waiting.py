"""Waiting for records without a timer that looks: whoever appends wakes those who wait, from whatever thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol, Self

from delta_log import Log
from ingest_api.call import Call


class End(Protocol):
    """Something that ends a wait: a future, or what can stand for one."""

    def done(self) -> bool: ...
    def add_done_callback(self, fn: Callable[[Any], object], /) -> None: ...
    def remove_done_callback(self, fn: Callable[[Any], object], /) -> object: ...


class Alarm:
    """Wakes one task of one loop; `ready` are the partitions that have records for it."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log = log
        self._topic = topic
        self._loop = asyncio.get_running_loop()
        self._armed: dict[int, Callable[[], None]] = {}
        self._waiter: asyncio.Future[None] | None = None
        self.ready: set[int] = set()

    def arm(self, partition: int, offset: int) -> None:
        """Be woken when a record at or behind `offset` is visible, or the partition is gone."""

        def wake() -> None:
            self._loop.call_soon_threadsafe(self._ring, partition)

        self._armed[partition] = self._log.on_records(self._topic, partition, offset, wake)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for cancel in self._armed.values():
            cancel()
        self._armed.clear()

    async def wait(self, seconds: float, ends: Iterable[End]) -> None:
        """Until something is ready, the time is over, or one of `ends` is done."""
        if self.ready:
            return
        self._waiter = self._loop.create_future()
        timer = self._loop.call_later(seconds, self._settle)
        for end in ends:
            end.add_done_callback(self._on_end)
        try:
            if not any(end.done() for end in ends):
                await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
            for end in ends:
                end.remove_done_callback(self._on_end)

    def _ring(self, partition: int) -> None:
        self._armed.pop(partition, None)
        self.ready.add(partition)
        self._settle()

    def _on_end(self, _end: object) -> None:
        self._settle()

    def _settle(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


async def disconnected(call: Call) -> None:
    """Returns when the client is gone."""
    while (await call.receive())["type"] != "http.disconnect":
        pass
