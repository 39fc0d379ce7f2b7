"""Futures that `send` of a Producer returns: each refers to its batch, so that it costs a tenth of a microsecond.

It has the methods of `concurrent.futures.Future` that make sense here. One event, made by the first thread that waits,
serves a whole batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from lakelog.foundation.errors import LakelogError
from lakelog.produce.batch import Batch, RecordMetadata

Delivered = RecordMetadata | LakelogError
#: Called with the error or None, and the metadata or None.
OnDelivery = Callable[[LakelogError | None, RecordMetadata | None], object]

T = TypeVar("T")

_log: Final = logging.getLogger("lakelog.produce")


def call(callback: Callable[[T], object], argument: T) -> None:
    """Call a callback; log its failure, so that the others are still called."""
    try:
        callback(argument)
    except BaseException:  # noqa: BLE001 - any failure: other records must go on
        _log.exception("a callback of a record failed")


class CalledBatch(Batch):
    """A batch with the callbacks of its records."""

    __slots__ = ("callbacks",)

    def __init__(self, topic: str, number: int, born: float) -> None:
        super().__init__(topic, number, born)
        self.callbacks: list[tuple[int, Callable[[Delivered], object]]] = []

    def call_back(self, on_delivery: OnDelivery) -> None:
        """Add a callback for the record that was added last."""

        def deliver(outcome: Delivered) -> None:
            if isinstance(outcome, LakelogError):
                on_delivery(outcome, None)
            else:
                on_delivery(None, outcome)

        self.callbacks.append((len(self.rows) - 1, deliver))

    def announce(self) -> None:
        """Call the callbacks; called once, after the batch is settled."""
        callbacks, self.callbacks = self.callbacks, []
        for index, callback in callbacks:
            call(callback, self.outcome(index))


class ThreadBatch(CalledBatch):
    """A batch that threads can wait for. Batches are settled under `lock`."""

    __slots__ = ("_event", "_lock")

    def __init__(self, topic: str, number: int, born: float, lock: threading.RLock) -> None:
        super().__init__(topic, number, born)
        self._lock = lock
        self._event: threading.Event | None = None

    def settle(self) -> None:
        super().settle()
        if self._event is not None:
            self._event.set()

    def forget_waiters(self) -> None:
        """Drop the event after a fork: its waiters are threads of the parent process."""
        self._event = None

    def wait(self, timeout: float | None) -> bool:
        with self._lock:
            if self.settled:
                return True
            if self._event is None:
                self._event = threading.Event()
            event = self._event
        return event.wait(timeout)

    def call_when_settled(self, index: int, callback: Callable[[Delivered], object]) -> bool:
        """Add a callback; False if the batch is settled already, and the callback was not added."""
        if self.settled:
            return False
        with self._lock:
            if not self.settled:
                self.callbacks.append((index, callback))
                return True
        return False


class RecordFuture(msgspec.Struct, eq=False, gc=False):
    """Result of sending one record. It cannot be cancelled: the record is being sent."""

    _batch: ThreadBatch
    _index: int

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for it; raises what went wrong, or TimeoutError when it is not known in time."""
        outcome = self._outcome(timeout)
        if isinstance(outcome, LakelogError):
            # Many records may share one error: drop the traceback of its last raise.
            raise outcome.with_traceback(None)
        return outcome

    def exception(self, timeout: float | None = None) -> LakelogError | None:
        batch = self._batch
        if not batch.settled and not batch.wait(timeout):
            raise TimeoutError
        return batch.error(self._index)

    def done(self) -> bool:
        return self._batch.settled

    def running(self) -> bool:
        return not self._batch.settled

    def cancel(self) -> bool:
        return False

    def cancelled(self) -> bool:
        return False

    def add_done_callback(self, callback: Callable[[RecordFuture], Any]) -> None:
        """Called with this future, by the thread that sends, or at once if it is done."""
        if not self._batch.call_when_settled(self._index, lambda _: callback(self)):
            call(callback, self)

    def _outcome(self, timeout: float | None) -> Delivered:
        batch = self._batch
        if not batch.settled and not batch.wait(timeout):
            raise TimeoutError
        return batch.outcome(self._index)
