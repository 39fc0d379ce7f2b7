"""Tasks that drive the outbox of an AsyncProducer in its event loop. They know clock and network, and decide nothing.

After every change, `_pump` takes attempts from the outbox until none is due: it starts a task for each request, and
one timer. A watching task lives as long as the producer: a loop that ends cancels it, and then every future is
resolved.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from typing import Final

from lakelog.foundation.errors import BufferFull, Closed, LakelogError, OutcomeUnknown, StillUnderWay
from lakelog.produce.batch import RecordMetadata
from lakelog.produce.futures import CalledBatch, OnDelivery
from lakelog.produce.init_epochs import make, run_async
from lakelog.produce.outbox import Attempt, Outbox
from lakelog.produce.rows import Row
from lakelog.produce.settings import ProducerSettings
from lakelog.produce.wire import Wire
from lakelog.transport import jitter as chance
from lakelog.transport.exchange import AsyncTransport

_log: Final = logging.getLogger("lakelog.produce")


class TaskBatch(CalledBatch):
    """A batch with a future for each record."""

    __slots__ = ("futures",)

    def __init__(self, topic: str, number: int, born: float) -> None:
        super().__init__(topic, number, born)
        self.futures: list[asyncio.Future[RecordMetadata]] = []

    def settle(self) -> None:
        super().settle()
        futures, self.futures = self.futures, []
        for index, future in enumerate(futures):
            if future.done():  # cancelled by the caller; the record was sent all the same
                continue
            outcome = self.outcome(index)
            if isinstance(outcome, LakelogError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)


class AsyncSender:
    """Sends the records of an AsyncProducer. It belongs to the loop in which the first record is added."""

    def __init__(self, settings: ProducerSettings, transport: AsyncTransport) -> None:
        self._settings = settings
        self._transport = transport
        self._wire = Wire(settings.acks, settings.compression_type)
        self._outbox = Outbox(settings, new_batch=TaskBatch, new_id=lambda: uuid.uuid4().hex, chance=chance.draw)
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._announcing = False
        self._changed = asyncio.Event()
        #: Makes the error with which records are refused after the end.
        self._ended: Callable[[], LakelogError] | None = None

    async def add(
        self, topic: str, row: Row, size: int, on_delivery: OnDelivery | None
    ) -> asyncio.Future[RecordMetadata]:
        if self._ended is not None:
            raise self._ended()
        loop = asyncio.get_running_loop()
        if self._watch is None:
            self._watch = loop.create_task(self._live(), name="lakelog-producer")
        batch = self._outbox.add(topic, row, size, loop.time())
        if batch is None:
            batch = await self._add_when_there_is_room(topic, row, size)
        future: asyncio.Future[RecordMetadata] = loop.create_future()
        batch.futures.append(future)
        if on_delivery is not None:
            batch.call_back(on_delivery)
        if batch.full or len(batch.rows) == 1:
            self._pump()
            # Yield to the event loop: a caller that sends in a tight loop would starve the other tasks.
            await asyncio.sleep(0)
        return future

    async def flush(self, timeout: float | None) -> None:  # noqa: ASYNC109 - as in the Producer
        if not await self._wait_for(self._outbox.flush(), timeout):
            raise StillUnderWay(timeout or 0.0)

    async def close(self, timeout: float | None) -> None:  # noqa: ASYNC109 - as in the Producer
        first, self._ended = self._ended is None, self._ended or Closed
        if not await self._wait_for(self._outbox.flush(), timeout):
            self._outbox.abort(Closed("it was closed before the record was sent"))
            self._pump()
        if not first:
            return
        tasks = [*self._tasks, *([self._watch] if self._watch else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._timer is not None:
            self._timer.cancel()
        await self._transport.close()

    async def _add_when_there_is_room(self, topic: str, row: Row, size: int) -> TaskBatch:
        loop, seconds = asyncio.get_running_loop(), self._settings.max_block_ms / 1000
        deadline = loop.time() + seconds
        while True:
            self._pump()
            if not await self._change(deadline):
                raise BufferFull(seconds, self._settings.buffer_memory)
            if self._ended is not None:
                raise self._ended()
            batch = self._outbox.add(topic, row, size, loop.time())
            if batch is not None:
                return batch

    async def _wait_for(self, through: int, timeout: float | None) -> bool:  # noqa: ASYNC109 - as in the Producer
        """Wait until the callers of every batch up to that number are notified; False if it is too late."""
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        self._pump()
        while not self._outbox.is_flushed(through):
            if not await self._change(deadline):
                return False
        return True

    async def _change(self, deadline: float | None) -> bool:
        """Wait until something is decided; False if it is too late."""
        self._changed.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _pump(self) -> None:
        loop = asyncio.get_running_loop()
        while isinstance(step := self._outbox.next(loop.time()), Attempt):
            task = loop.create_task(self._make(step))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if step is None else loop.call_at(step, self._pump)
        self._announce()

    async def _make(self, attempt: Attempt) -> None:
        try:
            verdict = await run_async(make(self._wire, attempt, self._settings.bootstrap_servers), self._transport)
        except Exception as error:  # noqa: BLE001 - any failure: every future is resolved
            _log.exception("a producer failed")
            self._surrender(f"its sender failed: {error!r}")
            return
        self._outbox.told(attempt, verdict, asyncio.get_running_loop().time())
        self._pump()

    def _announce(self) -> None:
        """Run callbacks, batch by batch in order. A callback that sends re-enters here; `_announcing` stops it."""
        if self._announcing or not self._outbox.decided:
            return
        self._announcing = True
        while self._outbox.decided:
            batch = self._outbox.decided.popleft()
            batch.announce()
            self._outbox.announced(batch)
        self._announcing = False
        self._changed.set()

    async def _live(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            held = sum(len(batch.rows) for batch in self._outbox.outstanding.values())
            if held:
                _log.warning("the event loop ends, and %d records are not known to be stored: use close()", held)
            if held or self._ended is None:
                self._surrender("the event loop has ended")

    def _surrender(self, why: str) -> None:
        """Send no more, and fail every pending record."""
        self._ended = lambda: Closed(why)
        self._outbox.surrender(OutcomeUnknown("storing a record", why))
        if self._timer is not None:
            self._timer.cancel()
        self._announce()
