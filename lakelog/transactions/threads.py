"""Transactions of a Producer, in the threads of its callers. Knows locks and the network; decides nothing.

One lock is held during a request: a transaction has one request in flight. Another guards the results of records, so
that a thread that waits for a future does not wait for a request.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from typing import TypeVar

from lakelog.consume.shapes import GroupOffsets
from lakelog.foundation.errors import Closed, IllegalState, LakelogError
from lakelog.produce.futures import OnDelivery, RecordFuture, ThreadBatch
from lakelog.produce.rows import Row
from lakelog.produce.settings import ProducerSettings
from lakelog.transactions.lifecycle import TransactionLifecycle
from lakelog.transactions.requests import TransactionQuestions
from lakelog.transport.exchange import Transport
from lakelog.transport.retry import Asking, run

T = TypeVar("T")


class Transacting:
    """Transactions of one producer, one at a time."""

    def __init__(self, settings: ProducerSettings, transport: Transport) -> None:
        self._settings = settings
        self._transport = transport
        self._asks = TransactionQuestions(settings)
        self._lock = threading.RLock()
        self._settling = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._open: TransactionLifecycle[ThreadBatch] | None = None

    def begin(self) -> TransactionLifecycle[ThreadBatch]:
        self._check_process()
        with self._lock:
            if self._closed:
                raise Closed
            if self._open is not None:
                raise IllegalState("a producer has one transaction at a time")
            begun = run(self._asks.begin(), self._transport)
            self._open = TransactionLifecycle(
                begun,
                self._settings,
                self._asks,
                lambda topic, number: ThreadBatch(topic, number, 0.0, self._settling),
            )
            return self._open

    def add(self, topic: str, row: Row, size: int, on_delivery: OnDelivery | None) -> RecordFuture:
        self._check_process()
        with self._lock:
            course = self._current()
            course.check()
            if full := course.must_go_before(topic, size):
                self._run(course, course.send(full))
            batch = course.add(topic, row, size)
            if on_delivery is not None:
                batch.call_back(on_delivery)
            return RecordFuture(batch, len(batch.rows) - 1)

    def flush(self) -> None:
        """Send all records to the server, which holds them; this does not commit."""
        self._check_process()
        with self._lock:
            if self._open is not None:
                self._run(self._open, self._open.send())

    def move_offsets(self, course: TransactionLifecycle[ThreadBatch], moved: GroupOffsets) -> None:
        self._check_process()
        with self._lock:
            self._run(course, course.move_offsets(moved))

    def leave(self, course: TransactionLifecycle[ThreadBatch], why: BaseException | None) -> None:
        """Commit, or abort because of `why`. Raises the error that prevented a commit."""
        if self._is_forked and why is not None:
            return  # the transaction belongs to the parent process
        self._check_process()
        with self._lock:
            if course.over:  # by a close
                if why is None:
                    raise Closed
                return
            try:
                settled, error = self._end(course, why)
            finally:
                self._open = None
        for batch in settled:
            batch.announce()
        if error is not None:
            raise error

    def close(self) -> None:
        """Abort the open transaction, and take no more."""
        if self._is_forked:
            return
        with self._lock:
            self._closed = True
            if self._open is not None:
                self.leave(self._open, Closed())

    def _end(
        self, course: TransactionLifecycle[ThreadBatch], why: BaseException | None
    ) -> tuple[list[ThreadBatch], LakelogError | None]:
        """Commit or abort; returns the settled batches, and the error to raise."""
        error = course.failed
        if why is None and error is None:
            try:
                places = self._run(course, course.commit())
                return self._settle(lambda: course.stored(places)), None
            except LakelogError as failed:
                error = failed
            except BaseException as failed:
                reason = course.reason_of(failed)
                for batch in self._settle(lambda: course.lost(reason)):
                    batch.announce()
                raise
        reason = error or course.reason_of(why or Closed())
        settled = self._settle(lambda: course.lost(reason))
        if reason.outcome != "unknown":
            with contextlib.suppress(LakelogError):  # if it is lost: the transaction is never committed
                run(course.abort(), self._transport)
        return settled, error if why is None else None

    def _settle(self, act: Callable[[], list[ThreadBatch]]) -> list[ThreadBatch]:
        with self._settling:
            return act()

    def _run(self, course: TransactionLifecycle[ThreadBatch], asking: Asking[T]) -> T:
        try:
            return run(asking, self._transport)
        except BaseException as error:
            if not isinstance(error, LakelogError):
                course.break_off(error)
            raise

    def _current(self) -> TransactionLifecycle[ThreadBatch]:
        if self._closed:
            raise Closed
        if self._open is None:
            raise IllegalState("with a transactional.id records are sent within transaction()")
        return self._open

    @property
    def _is_forked(self) -> bool:
        return os.getpid() != self._process

    def _check_process(self) -> None:
        if self._is_forked:
            raise Closed("this process is a fork of the one that opened it; open another one here")
