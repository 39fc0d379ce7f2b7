"""Tasks that drive the lanes, in one event loop, beside the caller's task. They decide nothing.

State changes only between two awaits, so there is no lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import uuid
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, TypeVar

from lakelog.consume.consumption import Consumption, Lane
from lakelog.consume.effects import Call, Doing, Wait
from lakelog.consume.settings import ConsumerSettings
from lakelog.foundation.errors import Closed, ConcurrentUse, IllegalState, LakelogError
from lakelog.transport import jitter as chance
from lakelog.transport.exchange import AsyncTransport, Outcome, Request
from lakelog.transport.retry import Asking, Heard, run_async

T = TypeVar("T")
Step = Request | Wait | Call
_log: Final = logging.getLogger("lakelog.consume")


class AsyncWork:
    """Driver of an AsyncConsumer. It belongs to the loop in which it is used first."""

    def __init__(self, settings: ConsumerSettings, transport: AsyncTransport) -> None:
        self.consumption = Consumption(settings, lambda: uuid.uuid4().hex)
        self._transport = transport
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiters: set[asyncio.Future[None]] = set()
        self._user: asyncio.Task[Any] | None = None
        self._depth = 0
        self._closing = self._started = False
        #: Makes the error of every call after the end.
        self._ended: Callable[[], LakelogError] | None = None

    # --- a caller's task

    @property
    def closing(self) -> bool:
        """True after `close` was called."""
        return self._closing

    @contextlib.contextmanager
    def using(self) -> Generator[Consumption]:
        """Reserve the consumer for the calling task; its listeners may call again."""
        me = asyncio.current_task()
        if self._ended is not None:
            raise self._ended()
        if self._closing and self._user is not me:
            raise Closed
        if self._user not in (None, me):
            raise ConcurrentUse("another task is using this consumer: only wakeup and close may be called")
        self._user, self._depth = me, self._depth + 1
        try:
            yield self.consumption
        finally:
            self._release()

    async def call(self, doing: Doing[T]) -> T:
        """Drive a call that may wait; only within `using`."""
        return await self._drive(doing, may_end=True)

    def change(self, act: Callable[[float], T]) -> T:
        """Apply a change that needs no wait; only within `using`. `act` gets the time."""
        try:
            return act(asyncio.get_running_loop().time())
        finally:
            self._start_tasks()
            self._tell()

    async def ask(self, asking: Asking[T]) -> T:
        """Send requests that need no lane; only within `using`."""
        return await run_async(asking, self._transport)

    def wake_up(self) -> None:
        self.consumption.known.woken = True
        self._touch()

    async def close(self, make: Callable[[], Doing[None]]) -> None:
        """Close: a call that waits in another task raises Closed. A second closer waits for the first."""
        me = asyncio.current_task()
        if self._ended is not None:
            return
        if self._user is me:
            raise IllegalState("a listener cannot close its consumer")
        if self._closing:
            while self._ended is None:
                await self._change(None)
            return
        self._closing = True
        self._touch()
        while self._user is not None:
            await self._change(None)
        self._user, self._depth = me, 1
        try:
            if self._started:
                await self._drive(make(), may_end=False)
        finally:
            self._release()
            await self._finish()

    async def _finish(self) -> None:
        self.consumption.known.ended = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._transport.close()
        self._ended = self._ended or Closed
        self._touch()

    def _release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._user = None
            self._tell()

    # --- the lanes' tasks

    def _start_tasks(self) -> None:
        if self._started or self.consumption.known.wanted is None:
            return
        self._started = True
        loop = asyncio.get_running_loop()
        for lane in self.consumption.lanes:
            self._tasks.add(loop.create_task(self._run(lane), name=f"lakelog-consumer-{lane.name}"))

    async def _run(self, lane: Lane) -> None:
        try:
            await self._drive(lane.run(), may_end=False)
        except asyncio.CancelledError:
            if not self._closing:
                self._end("the event loop has ended")
            raise
        except Exception as error:  # noqa: BLE001 - any failure: no caller may wait forever
            _log.exception("a consumer failed")
            self._end(f"its lane of {lane.name} failed: {error!r}")

    def _end(self, why: str) -> None:
        self._ended = self._ended or (lambda: Closed(why))
        self.consumption.known.ended = True
        self._touch()

    # --- driving the generators

    async def _drive(self, doing: Doing[T], *, may_end: bool) -> T:
        """Run a generator to its end. `may_end`: it is a caller's call, which ends when the consumer does."""
        known, loop = self.consumption.known, asyncio.get_running_loop()
        advance: Callable[[], Step] = lambda: next(doing)  # noqa: E731
        try:
            while True:
                before = known.changes
                try:
                    step = advance()
                except StopIteration as end:
                    return end.value
                finally:
                    if known.changes != before:
                        self._tell()
                    self._log_warnings()
                outcome: Outcome | None = None
                if isinstance(step, Request):
                    outcome = await self._transport.send(step)
                elif isinstance(step, Wait):
                    await self._wait(step, may_end=may_end)
                else:
                    try:
                        made = step.act(*step.given)
                        if inspect.isawaitable(made):
                            await made
                    except BaseException as error:  # noqa: BLE001 - it is thrown into the generator
                        advance = partial(doing.throw, error)
                        continue
                heard = Heard(loop.time(), chance.draw(), outcome)
                advance = partial(doing.send, heard)
        finally:
            doing.close()
            self._tell()

    async def _wait(self, step: Wait, *, may_end: bool) -> None:
        known, loop = self.consumption.known, asyncio.get_running_loop()
        seen = known.changes
        while known.changes == seen:
            self._check_end(may_end=may_end)
            if step.until is not None and step.until <= loop.time():
                break
            await self._change(step.until)
        self._check_end(may_end=may_end)

    async def _change(self, until: float | None) -> None:
        """Wait for `_tell`, or until the given time."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout_at(until):
                await waiter
        except TimeoutError:
            return
        finally:
            self._waiters.discard(waiter)

    def _check_end(self, *, may_end: bool) -> None:
        if may_end and self._closing:
            raise Closed
        if may_end and self._ended is not None:
            raise self._ended()

    def _touch(self) -> None:
        self.consumption.known.touch()
        self._tell()

    def _tell(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _log_warnings(self) -> None:
        warnings = self.consumption.known.warnings
        while warnings:
            _log.warning("%s", warnings.popleft())
