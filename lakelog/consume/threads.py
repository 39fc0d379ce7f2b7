"""Threads that drive the lanes, and the caller's thread that drives its calls. They decide nothing.

One lock guards the consumer's state; it is held for decisions, never during a request or a callback.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import uuid
import weakref
from collections.abc import Callable, Generator
from functools import partial
from time import monotonic
from typing import Any, Final, TypeVar

from lakelog.consume.consumption import Consumption, Lane
from lakelog.consume.effects import Call, Doing, Wait
from lakelog.consume.settings import ConsumerSettings
from lakelog.foundation.errors import Closed, ConcurrentUse, IllegalState, LakelogError
from lakelog.transport import jitter as chance
from lakelog.transport.exchange import Outcome, Request, Transport
from lakelog.transport.retry import Asking, Heard, run

T = TypeVar("T")
Step = Request | Wait | Call
_log: Final = logging.getLogger("lakelog.consume")
#: How long a forgotten consumer tries to leave its group.
_LEAVING_S: Final = 5.0
#: How long `close` waits for the threads to end.
_JOIN_S: Final = 0.5


class Work:
    """Driver of a Consumer. It ends when the Consumer is closed or garbage collected."""

    def __init__(self, settings: ConsumerSettings, transport: Transport) -> None:
        self.consumption = Consumption(settings, lambda: uuid.uuid4().hex)
        self._transport = transport
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._threads: set[threading.Thread] = set()
        self._user: int | None = None
        self._depth = 0
        self._closing = self._started = False
        #: Makes the error of every call after the end.
        self._ended: Callable[[], LakelogError] | None = None
        _watch_over(self)

    # --- a caller's thread

    @property
    def closing(self) -> bool:
        """True after `close` was called."""
        return self._closing

    @contextlib.contextmanager
    def using(self) -> Generator[Consumption]:
        """Reserve the consumer for the calling thread; its listeners may call again."""
        me = threading.get_ident()
        with self._lock:
            if self._ended is not None:
                raise self._ended()
            if self._closing and self._user != me:
                raise Closed
            if self._user not in (None, me):
                raise ConcurrentUse("another thread is using this consumer: only wakeup and close may be called")
            self._user, self._depth = me, self._depth + 1
        try:
            yield self.consumption
        finally:
            self._release()

    def call(self, doing: Doing[T]) -> T:
        """Drive a call that may wait; only within `using`."""
        return self._drive(doing, may_end=True)

    def change(self, act: Callable[[float], T]) -> T:
        """Apply a change that needs no wait; only within `using`. `act` gets the time."""
        with self._lock:
            try:
                return act(monotonic())
            finally:
                self._start_threads()
                self._changed.notify_all()

    def ask(self, asking: Asking[T]) -> T:
        """Send requests that need no lane; only within `using`."""
        return run(asking, self._transport)

    def wake_up(self) -> None:
        """Interrupt the waiting call; for any thread, at any time."""
        with self._lock:
            self.consumption.known.woken = True
            self._tell()

    def close(self, make: Callable[[], Doing[None]]) -> None:
        """Close, from any thread: a call that waits in another raises Closed. A second closer waits for the first."""
        me = threading.get_ident()
        with self._lock:
            if self._ended is not None:
                return
            if self._user == me:
                raise IllegalState("a listener cannot close its consumer")
            if self._closing:
                self._changed.wait_for(lambda: self._ended is not None)
                return
            self._closing = True
            self._tell()
            self._changed.wait_for(lambda: self._user is None)
            self._user, self._depth = me, 1
        try:
            if self._started:
                self._drive(make(), may_end=False)
        finally:
            self._release()
            self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._ended = self._ended or Closed
            self.consumption.known.ended = True
            self._tell()
            threads = set(self._threads)
            if not threads:
                self._transport.close()
        deadline = monotonic() + _JOIN_S
        for thread in threads:
            thread.join(max(0.0, deadline - monotonic()))

    def _release(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._user = None
                self._changed.notify_all()

    # --- the lanes' threads

    def _start_threads(self) -> None:
        with self._lock:
            if self._started or self.consumption.known.wanted is None:
                return
            self._started = True
            for lane in self.consumption.lanes:
                name = f"lakelog-consumer-{lane.name}"
                thread = threading.Thread(target=self._run, args=(lane,), name=name, daemon=True)
                self._threads.add(thread)
                thread.start()

    def _run(self, lane: Lane) -> None:
        try:
            self._drive(lane.run(), may_end=False)
        except BaseException as error:  # noqa: BLE001 - any failure: no caller may wait forever
            _log.exception("a consumer failed")
            self._fail(error)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
                last = not self._threads
            if last:
                self._transport.close()

    def _fail(self, error: BaseException) -> None:
        why = f"its {threading.current_thread().name} failed: {error!r}"
        with self._lock:
            self._ended = lambda: Closed(why)
            self.consumption.known.ended = True
            self._tell()

    def abandon(self) -> None:
        """Leave the group and end, because the consumer was garbage collected. Called from any thread."""
        with self._lock:
            known = self.consumption.known
            if known.ended or self._closing:
                return
            known.wanted, known.ended, known.failing = None, True, True
            known.leave_by = monotonic() + _LEAVING_S
            self._ended = Closed
            self._tell()
            if not self._threads:
                self._transport.close()

    def forget_parent(self) -> None:
        """Reset in the child of a fork: it has no threads, and the partitions are the parent's."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._threads, self._user, self._depth = set(), None, 0
        self._ended = lambda: Closed("this process is a fork of the one that opened it; open another one here")

    # --- driving the generators

    def _drive(self, doing: Doing[T], *, may_end: bool) -> T:
        """Run a generator to its end. `may_end`: it is a caller's call, which ends when the consumer does."""
        advance: Callable[[], Step] = lambda: next(doing)  # noqa: E731
        try:
            while True:
                step = self._advance(doing, advance, may_end=may_end)
                outcome: Outcome | None = None
                if isinstance(step, Request):
                    outcome = self._transport.send(step)
                else:
                    try:
                        step.act(*step.given)
                    except BaseException as error:  # noqa: BLE001 - it is thrown into the generator
                        advance = partial(doing.throw, error)
                        continue
                advance = partial(_send, doing, outcome)
        except _Returned as returned:
            return returned.value
        finally:
            with self._lock:
                doing.close()
                self._changed.notify_all()

    def _advance(self, doing: Doing[Any], advance: Callable[[], Step], *, may_end: bool) -> Request | Call:
        """Advance to the next step that is done without the lock; Wait steps are done here."""
        known = self.consumption.known
        with self._lock:
            while True:
                before = known.changes
                try:
                    step = advance()
                except StopIteration as end:
                    raise _Returned(end.value) from None
                finally:
                    if known.changes != before:
                        self._changed.notify_all()
                    self._log_warnings()
                if not isinstance(step, Wait):
                    return step
                self._wait(step, may_end=may_end)
                advance = partial(_send, doing, None)

    def _wait(self, step: Wait, *, may_end: bool) -> None:
        known = self.consumption.known
        seen = known.changes
        while known.changes == seen:
            self._check_end(may_end=may_end)
            left = None if step.until is None else step.until - monotonic()
            if left is not None and left <= 0:
                break
            self._changed.wait(None if left is None else min(left, threading.TIMEOUT_MAX))
        self._check_end(may_end=may_end)

    def _check_end(self, *, may_end: bool) -> None:
        if may_end and self._closing:
            raise Closed
        if may_end and self._ended is not None:
            raise self._ended()

    def _tell(self) -> None:
        self.consumption.known.touch()
        self._changed.notify_all()

    def _log_warnings(self) -> None:
        warnings = self.consumption.known.warnings
        while warnings:
            _log.warning("%s", warnings.popleft())


def _send(doing: Doing[Any], outcome: Outcome | None) -> Step:
    return doing.send(Heard(monotonic(), chance.draw(), outcome))


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


_all: Final[weakref.WeakSet[Work]] = weakref.WeakSet()
_hooks: Final[list[None]] = []


def _watch_over(work: Work) -> None:
    _all.add(work)
    if not _hooks:
        _hooks.append(None)
        os.register_at_fork(after_in_child=_forget_parents)


def _forget_parents() -> None:
    for work in list(_all):
        work.forget_parent()
