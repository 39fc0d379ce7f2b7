"""Threads that drive the outbox of a Producer. They know the clock, locks and the network, and decide nothing.

All threads are alike: each takes the next job, does it, and reports the result. There is one more than requests in
flight, so that one can always watch the time; they are started on demand. One lock guards the outbox; it is held for
a decision, never during encoding, sending or a callback.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import uuid
import weakref
from collections.abc import Callable
from time import monotonic
from typing import Final

from lakelog.foundation.errors import BufferFull, Closed, LakelogError, OutcomeUnknown, StillUnderWay
from lakelog.produce.futures import OnDelivery, RecordFuture, ThreadBatch
from lakelog.produce.init_epochs import make, run
from lakelog.produce.outbox import Attempt, Outbox
from lakelog.produce.rows import Row
from lakelog.produce.settings import ProducerSettings
from lakelog.produce.wire import Wire
from lakelog.transport import jitter as chance
from lakelog.transport.exchange import Transport

_log: Final = logging.getLogger("lakelog.produce")
#: How long `close` waits for each idle thread to end.
_JOIN_S: Final = 5.0


class Sender:
    """Sends the records of a Producer. It lives until all are decided, even if its Producer is garbage collected."""

    def __init__(self, settings: ProducerSettings, transport: Transport) -> None:
        self._settings = settings
        self._transport = transport
        self._wire = Wire(settings.acks, settings.compression_type)
        self._prepare_locks()
        self._outbox = Outbox(
            settings,
            new_batch=lambda topic, number, born: ThreadBatch(topic, number, born, self._lock),
            new_id=lambda: uuid.uuid4().hex,
            chance=chance.draw,
        )
        self._threads: set[threading.Thread] = set()
        self._most_threads = settings.max_in_flight_requests_per_connection + 1
        self._idle = 0
        self._announcing = False
        #: Makes the error with which records are refused after the end.
        self._ended: Callable[[], LakelogError] | None = None

    def _prepare_locks(self) -> None:
        # Reentrant: the garbage collector may finish a forgotten producer anywhere, also inside the lock.
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._room = threading.Condition(self._lock)
        self._announced = threading.Condition(self._lock)

    def add(self, topic: str, row: Row, size: int, on_delivery: OnDelivery | None) -> RecordFuture:
        with self._lock:
            if self._ended is not None:
                raise self._ended()
            if not self._threads:
                self._start_thread()
            batch = self._outbox.add(topic, row, size, monotonic())
            if batch is None:
                batch = self._add_when_there_is_room(topic, row, size)
            index = len(batch.rows) - 1
            if on_delivery is not None:
                batch.call_back(on_delivery)
            if index == 0 or batch.full:
                self._wake_one()
            return RecordFuture(batch, index)

    def flush(self, timeout: float | None) -> None:
        with self._lock:
            if threading.current_thread() in self._threads:
                raise RuntimeError("flush() in a callback would wait for itself")
            if not self._wait_for(self._outbox.flush(), timeout):
                raise StillUnderWay(timeout or 0.0)

    def close(self, timeout: float | None) -> None:
        """Deliver all records; those not decided in time are given up."""
        self.finish()
        with self._lock:
            threads = set(self._threads)
            if threading.current_thread() in threads:
                return
            if not self._wait_for(self._outbox.flush(), timeout):
                self._outbox.abort(Closed("it was closed before the record was sent"))
                self._work.notify_all()
            hanging = bool(self._outbox.in_flight)
        self._announce_if_nobody_does()
        for thread in () if hanging else threads:
            thread.join(_JOIN_S)

    def finish(self) -> None:
        """Take no more records, deliver the rest, and end without waiting for it."""
        with self._lock:
            if self._ended is None:
                self._ended = Closed
                if not self._threads:
                    self._transport.close()
            self._outbox.flush()
            self._work.notify_all()
            self._room.notify_all()

    def forget_parent(self) -> None:
        """Reset in the child of a fork: it has no threads, and the records are the parent's to send."""
        why = "this process is a fork of the one that opened it; open another one here"
        self._prepare_locks()
        self._threads = set()
        self._ended = lambda: Closed(why)
        for batch in self._outbox.outstanding.values():
            batch.forget_waiters()
        self._outbox.surrender(OutcomeUnknown("a record of the parent process", why))
        self._outbox.outstanding.clear()
        self._outbox.decided.clear()

    def _add_when_there_is_room(self, topic: str, row: Row, size: int) -> ThreadBatch:
        seconds = self._settings.max_block_ms / 1000
        deadline = monotonic() + seconds
        while True:
            self._wake_one()
            left = deadline - monotonic()
            if left <= 0 or not self._room.wait(min(left, threading.TIMEOUT_MAX)):
                raise BufferFull(seconds, self._settings.buffer_memory)
            if self._ended is not None:
                raise self._ended()
            batch = self._outbox.add(topic, row, size, monotonic())
            if batch is not None:
                return batch

    def _wait_for(self, through: int, timeout: float | None) -> bool:
        """Wait until the callers of every batch up to that number are notified; False if it is too late."""
        deadline = None if timeout is None else monotonic() + timeout
        self._work.notify_all()
        while not self._outbox.is_flushed(through):
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return False
            self._announced.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
        return True

    def _wake_one(self) -> None:
        if self._idle or len(self._threads) >= self._most_threads:
            self._work.notify()
            return
        try:
            self._start_thread()
        except RuntimeError:
            _log.warning("no more threads can be started: %d send", len(self._threads))

    def _start_thread(self) -> None:
        _watch_over(self)
        thread = threading.Thread(target=self._run, name="lakelog-producer", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:
            self._threads.discard(thread)
            raise

    def _run(self) -> None:
        try:
            while (job := self._next_job()) is not None:
                job()
        except BaseException as error:  # noqa: BLE001 - any failure: every future is resolved
            _log.exception("a producer failed")
            self._fail(error)
        finally:
            self._leave()

    def _next_job(self) -> Callable[[], None] | None:
        with self._lock:
            while True:
                step = self._outbox.next(monotonic())
                if self._outbox.decided:
                    self._room.notify_all()
                if isinstance(step, Attempt):
                    self._wake_one()
                    return lambda attempt=step: self._make(attempt)
                if self._outbox.decided and not self._announcing:
                    self._announcing = True
                    self._wake_one()
                    return self._announce
                if self._ended is not None and not self._outbox.outstanding:
                    self._work.notify_all()
                    return None
                self._idle += 1
                self._work.wait(None if step is None else max(0.0, step - monotonic()))
                self._idle -= 1

    def _make(self, attempt: Attempt) -> None:
        verdict = run(make(self._wire, attempt, self._settings.bootstrap_servers), self._transport)
        with self._lock:
            self._outbox.told(attempt, verdict, monotonic())

    def _announce(self) -> None:
        """Run callbacks, batch by batch in order; one thread at a time does so."""
        while True:
            with self._lock:
                self._announced.notify_all()
                if not self._outbox.decided:
                    self._announcing = False
                    if self._ended is not None:
                        self._work.notify_all()
                    return
                batch = self._outbox.decided.popleft()
            batch.announce()
            with self._lock:
                self._outbox.announced(batch)

    def _announce_if_nobody_does(self) -> None:
        with self._lock:
            if self._announcing or not self._outbox.decided:
                return
            self._announcing = True
        self._announce()

    def _fail(self, error: BaseException) -> None:
        """End after an internal error: send no more, and fail every pending record."""
        why = f"its sender failed: {error!r}"
        with self._lock:
            self._ended = lambda: Closed(why)
            self._outbox.surrender(OutcomeUnknown("storing a record", why))
            self._work.notify_all()
            self._room.notify_all()
        self._announce_if_nobody_does()

    def _leave(self) -> None:
        with self._lock:
            self._threads.discard(threading.current_thread())
            last = self._ended is not None and not self._threads
        if last:
            self._transport.close()
            _watched.discard(self)


#: Senders with threads: their records are delivered before the process ends.
_watched: Final[set[Sender]] = set()
_all: Final[weakref.WeakSet[Sender]] = weakref.WeakSet()
_hooks: Final[list[None]] = []


def _watch_over(sender: Sender) -> None:
    _watched.add(sender)
    _all.add(sender)
    if not _hooks:
        _hooks.append(None)
        atexit.register(_close_all)
        os.register_at_fork(after_in_child=_forget_parents)


def _close_all() -> None:
    for sender in list(_watched):
        sender.close(None)


def _forget_parents() -> None:
    for sender in list(_all):
        sender.forget_parent()
    _watched.clear()
