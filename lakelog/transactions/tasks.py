"""Transactions of an AsyncProducer, in the tasks of its callers. Knows the network; decides nothing.

One lock is held during a request: a transaction has one request in flight.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeVar

from lakelog.consume.shapes import GroupOffsets
from lakelog.foundation.errors import Closed, IllegalState, LakelogError
from lakelog.produce.batch import RecordMetadata
from lakelog.produce.futures import OnDelivery
from lakelog.produce.rows import Row
from lakelog.produce.settings import ProducerSettings
from lakelog.produce.tasks import TaskBatch
from lakelog.transactions.lifecycle import TransactionLifecycle
from lakelog.transactions.requests import TransactionQuestions
from lakelog.transport.exchange import AsyncTransport
from lakelog.transport.retry import Asking, run_async

T = TypeVar("T")


class _Batch(TaskBatch):
    """A batch of a transaction. Leaving the transaction raises the error, so asyncio need not warn about futures."""

    __slots__ = ()

    def settle(self) -> None:
        futures = self.futures
        super().settle()
        for future in futures:
            if not future.cancelled():
                future.exception()


class AsyncTransacting:
    """Transactions of one producer, one at a time."""

    def __init__(self, settings: ProducerSettings, transport: AsyncTransport) -> None:
        self._settings = settings
        self._transport = transport
        self._asks = TransactionQuestions(settings)
        self._lock = asyncio.Lock()
        self._closed = False
        self._open: TransactionLifecycle[_Batch] | None = None

    async def begin(self) -> TransactionLifecycle[_Batch]:
        async with self._lock:
            if self._closed:
                raise Closed
            if self._open is not None:
                raise IllegalState("a producer has one transaction at a time")
            begun = await run_async(self._asks.begin(), self._transport)
            self._open = TransactionLifecycle(
                begun, self._settings, self._asks, lambda topic, number: _Batch(topic, number, 0.0)
            )
            return self._open

    async def add(
        self, topic: str, row: Row, size: int, on_delivery: OnDelivery | None
    ) -> asyncio.Future[RecordMetadata]:
        async with self._lock:
            course = self._current()
            course.check()
            if full := course.must_go_before(topic, size):
                await self._run(course, course.send(full))
            batch = course.add(topic, row, size)
            if on_delivery is not None:
                batch.call_back(on_delivery)
            future: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
            batch.futures.append(future)
            return future

    async def flush(self) -> None:
        """Send all records to the server, which holds them; this does not commit."""
        async with self._lock:
            if self._open is not None:
                await self._run(self._open, self._open.send())

    async def move_offsets(self, course: TransactionLifecycle[_Batch], moved: GroupOffsets) -> None:
        async with self._lock:
            await self._run(course, course.move_offsets(moved))

    async def leave(self, course: TransactionLifecycle[_Batch], why: BaseException | None) -> None:
        """Commit, or abort because of `why`. Raises the error that prevented a commit."""
        async with self._lock:
            settled, error = await self._leave(course, why)
        for batch in settled:
            batch.announce()
        if error is not None:
            raise error

    async def close(self) -> None:
        """Abort the open transaction, and take no more."""
        async with self._lock:
            self._closed = True
            settled, _ = ([], None) if self._open is None else await self._leave(self._open, Closed())
        for batch in settled:
            batch.announce()

    async def _leave(
        self, course: TransactionLifecycle[_Batch], why: BaseException | None
    ) -> tuple[list[_Batch], LakelogError | None]:
        if course.over:  # by a close
            return [], Closed() if why is None else None
        try:
            return await self._end(course, why)
        finally:
            self._open = None

    async def _end(
        self, course: TransactionLifecycle[_Batch], why: BaseException | None
    ) -> tuple[list[_Batch], LakelogError | None]:
        """Commit or abort; returns the settled batches, and the error to raise."""
        error = course.failed
        if why is None and error is None:
            try:
                return course.stored(await self._run(course, course.commit())), None
            except LakelogError as failed:
                error = failed
            except BaseException as failed:
                for batch in course.lost(course.reason_of(failed)):
                    batch.announce()
                raise
        reason = error or course.reason_of(why or Closed())
        settled = course.lost(reason)
        if reason.outcome != "unknown":
            with contextlib.suppress(LakelogError):  # if it is lost: the transaction is never committed
                await run_async(course.abort(), self._transport)
        return settled, error if why is None else None

    async def _run(self, course: TransactionLifecycle[_Batch], asking: Asking[T]) -> T:
        try:
            return await run_async(asking, self._transport)
        except BaseException as error:
            if not isinstance(error, LakelogError):
                course.break_off(error)
            raise

    def _current(self) -> TransactionLifecycle[_Batch]:
        if self._closed:
            raise Closed
        if self._open is None:
            raise IllegalState("with a transactional.id records are sent within transaction()")
        return self._open
