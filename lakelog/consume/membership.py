"""Membership in a group: joining, subscribing, heartbeats, leaving. Pure.

One request at a time, so that an older assignment never overwrites a newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, cast

from lakelog.consume.consumer_state import ConsumerState
from lakelog.consume.effects import NOW, Doing, Pace, Wait, code_of, fault_in
from lakelog.consume.instance_api import Wire, read_beat
from lakelog.consume.subscription import Manual
from lakelog.foundation.errors import LakelogError
from lakelog.transport.exchange import Answer, Request
from lakelog.transport.retry import Heard
from lakelog.transport.server_errors import Fault

UNKNOWN_INSTANCE: Final = 40403
NAME_TAKEN: Final = 40902
STALE: Final = 40904

Act = Callable[[float], Generator[Request, Heard, float]]


class Membership:
    """Lane of the membership. `new_name` returns a unique name."""

    def __init__(self, known: ConsumerState, wire: Wire, new_name: Callable[[], str]) -> None:
        self._known = known
        self._wire = wire
        self._new_name = new_name
        self._pace = Pace(known.settings.backoff)
        self._beat_s = known.settings.heartbeat_interval_ms / 1000
        self._beat_at = 0.0
        self._name: str | None = None
        self._doubted = False
        """Whether a join under this name has an unknown outcome."""

    def run(self) -> Doing[None]:
        """Run until the consumer ends."""
        now = (yield NOW).now
        while not self._is_over():
            act = self._next(now)
            if act is not None:
                now = yield from act(now)
            elif not self._is_over():
                now = (yield Wait(self._until(now))).now

    def _is_over(self) -> bool:
        return self._known.ended and self._known.leave_by is None

    def _next(self, now: float) -> Act | None:
        known = self._known
        if known.member is None and not self._doubted:
            self._name = None
        self._check_poll(now)
        if known.leave_by is not None and (self._name is None or now >= known.leave_by):
            self._left()
        if now < self._pace.not_before:
            return None
        if known.leave_by is not None:
            return self._leave
        if known.ended or known.fatal or known.overdue or known.wanted is None:
            return None
        if known.member is None:
            return None if known.stopped else self._join
        if known.told != known.wanted and known.may_tell and not known.stopped:
            return self._tell
        return self._beat if known.learn or now >= self._beat_at else None

    def _until(self, now: float) -> float | None:
        known = self._known
        if now < self._pace.not_before:
            return self._pace.not_before if known.leave_by is None else min(self._pace.not_before, known.leave_by)
        if known.member is None or known.wanted is None or known.fatal:
            return None
        return self._beat_at if known.polling or not known.subscribed else min(self._beat_at, self._poll_by())

    def _poll_by(self) -> float:
        return self._known.polled_at + self._known.settings.max_poll_interval_ms / 1000

    def _check_poll(self, now: float) -> None:
        """Leave the group if the caller has not polled for max.poll.interval.ms."""
        known = self._known
        waits = known.polling or not known.subscribed or known.member is None or known.leave_by is not None
        if waits or known.overdue or now < self._poll_by():
            return
        interval_ms = known.settings.max_poll_interval_ms
        known.warnings.append(
            f"no poll for max.poll.interval.ms={interval_ms}: the consumer leaves group {known.settings.group_id!r}"
            " until the next one"
        )
        known.overdue = known.failing = True
        known.lose(known.held.values())
        known.leave_by = now + known.settings.request_timeout_ms / 1000

    def _join(self, _now: float) -> Generator[Request, Heard, float]:
        known = self._known
        if self._name is None:
            self._name, self._doubted = self._new_name(), False
        heard = yield self._wire.join(self._name)
        fault = self._fault(heard, "joining the group")
        if fault is None or (self._doubted and code_of(fault) == NAME_TAKEN):
            known.member, self._doubted = self._name, False
            known.heard_at, self._beat_at = heard.now, heard.now + self._beat_s
            self._pace.succeeded()
            known.touch()
        elif code_of(fault) == NAME_TAKEN:
            self._name = None
        else:
            self._doubted = self._doubted or fault.unknown
            self._failed(heard, fault)
        return heard.now

    def _tell(self, now: float) -> Generator[Request, Heard, float]:
        known, name, member, wanted = self._known, self._name or "", self._known.member, self._known.wanted
        if wanted is None:
            return now
        if known.told is not None and type(known.told) is not type(wanted):
            heard = yield self._wire.unsubscribe(name)
            if not self._refused(heard, "unsubscribing") and known.member == member:
                known.told = None
            return heard.now
        if isinstance(wanted, Manual):
            heard = yield self._wire.assign(name, wanted.partitions)
        else:
            heard = yield self._wire.subscribe(name, wanted)
        if not self._refused(heard, "subscribing") and known.member == member:
            known.told = wanted
            known.learn = not isinstance(wanted, Manual)
            known.touch()
        return heard.now

    def _beat(self, _now: float) -> Generator[Request, Heard, float]:
        known, member = self._known, self._known.member
        known.learn, known.beats = False, known.beats + 1
        heard = yield self._wire.beat(self._name or "", known.held if known.subscribed else None)
        if self._refused(heard, "a heartbeat"):
            known.learn = True
            return heard.now
        self._beat_at = heard.now + self._beat_s
        if known.member != member:
            return heard.now
        try:
            known.hear(read_beat(cast("Answer", heard.outcome)))
        except LakelogError as error:
            known.warnings.append(str(error))
            known.learn = True
            self._pace.failed(heard)
        return heard.now

    def _leave(self, _now: float) -> Generator[Request, Heard, float]:
        known = self._known
        heard = yield self._wire.leave(self._name or "", known.received, known.done, failed=known.failing)
        fault = self._fault(heard, "leaving the group")
        if fault is None or not fault.again:
            self._left()
        else:
            self._pace.failed(heard, fault.retry_after_s)
        return heard.now

    def _left(self) -> None:
        known = self._known
        self._name, self._doubted, known.leave_by = None, False, None
        self._pace.succeeded()
        known.leave_membership()

    def _refused(self, heard: Heard, what: str) -> bool:
        """Check an answer for the member; True if the request failed, and the failure was applied to the state."""
        fault = self._fault(heard, what)
        if fault is None:
            self._pace.succeeded()
            self._known.heard_at = heard.now
            return False
        if code_of(fault) == UNKNOWN_INSTANCE:
            self._known.expelled(self._name, heard.now)
            self._name = None
        else:
            self._failed(heard, fault)
        return True

    def _failed(self, heard: Heard, fault: Fault) -> None:
        self._pace.failed(heard, fault.retry_after_s)
        if not fault.again:
            self._known.fail(fault.error)

    def _fault(self, heard: Heard, what: str) -> Fault | None:
        return fault_in(heard, what, self._known.settings.bootstrap_servers)
