"""Waiting for records without polling: an append wakes the waiting tasks, from any thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol, Self

from delta_log import Log
from ingest_api.web.request import Call

Wake = Callable[[], None]


class End(Protocol):
    """An event that ends a wait: a future, or an object with its methods."""

    def done(self) -> bool: ...
    def add_done_callback(self, fn: Callable[[Any], object], /) -> None: ...
    def remove_done_callback(self, fn: Callable[[Any], object], /) -> object: ...


class LoopNotifier:
    """Lets threads wake tasks of one loop.

    The loop is called once for all tasks that an append wakes, as each call costs the appending thread.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakes: deque[Wake] = deque()
        self._called = False

    def bind(self) -> None:
        """Use the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def notify(self, wake: Wake) -> None:
        """Run `wake` in the loop. Called by any thread."""
        self._wakes.append(wake)
        if not self._called and self._loop is not None:
            self._called = True
            self._loop.call_soon_threadsafe(self._wake_all)

    def _wake_all(self) -> None:
        self._called = False  # before the first wake: a `notify` that this run misses must call the loop again
        while self._wakes:
            self._wakes.popleft()()


class RecordWaiter:
    """Wakes one task; `ready` are the partitions with records for it, or that are gone. Used with `with`."""

    def __init__(self, log: Log, topic: str, bell: LoopNotifier) -> None:
        self._log = log
        self._topic = topic
        self._bell = bell
        self._armed: dict[int, Callable[[], None]] = {}
        self._woken: asyncio.Future[None] | None = None
        self.ready: set[int] = set()
        bell.bind()

    def watch(self, partition: int, offset: int) -> None:
        """Wake the task when a record at or behind `offset` is visible, or the partition is gone."""

        def ring() -> None:
            self._ring(partition)

        self._armed[partition] = self._log.on_records(self._topic, partition, offset, lambda: self._bell.notify(ring))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for cancel in self._armed.values():
            cancel()
        self._armed.clear()

    async def wait(self, seconds: float, ends: Iterable[End]) -> None:
        """Wait until a partition is ready, the time is over, or one of `ends` is done."""
        if self.ready:
            return
        self._woken = asyncio.get_running_loop().create_future()
        try:
            await wait_for_any(seconds, (self._woken, *ends))
        finally:
            self._woken = None

    def _ring(self, partition: int) -> None:
        self._armed.pop(partition, None)
        self.ready.add(partition)
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


async def wait_for_any(seconds: float, ends: Iterable[End]) -> None:
    """Wait until one of `ends` is done, or the time is over. None of them is cancelled, and no result is read."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()
    several = tuple(ends)

    def settle(_end: object = None) -> None:
        if not waiter.done():
            waiter.set_result(None)

    timer = loop.call_later(seconds, settle)
    try:
        for end in several:
            end.add_done_callback(settle)
        await waiter
    finally:
        timer.cancel()
        for end in several:
            end.remove_done_callback(settle)


async def disconnected(call: Call) -> None:
    """Wait until the client has disconnected."""
    while (await call.receive())["type"] != "http.disconnect":
        pass
