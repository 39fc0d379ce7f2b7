"""The in-order queue of an event loop: requests of idempotent producers, each after its predecessors.

A request that arrives before its predecessor waits here, outside the commit queue. When the predecessor enters the
commit queue from here, it enters right behind, so that both share a group; when the predecessor is stored through
another loop or thread, `EarlyRequests` wakes it. The sequencer alone decides: a request that it still finds too early
returns and waits here again. At its deadline it is retried a last time, and that answer is final.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from delta_log.append.async_append import AppendTicket, LoopReplies
from delta_log.append.early_requests import Parked
from delta_log.append.group_commit import Writer
from delta_log.model.errors import OutOfOrderSequence
from delta_log.model.types import ProducerStamp
from delta_log.records.request import Request
from delta_log.topics.topic_state import TopicState

#: A producer, and a topic's id.
Key = tuple[str, str]


class AsyncInOrderQueue:
    """In-order queue of one loop, used by that loop alone. `wait_s`: longest wait for a predecessor."""

    def __init__(self, writer: Writer, box: LoopReplies, wait_s: float) -> None:
        self.box = box
        self.writer = writer
        self.wait_s = wait_s
        #: next sequence after the last request enqueued from here, while that is in flight
        self._following: dict[Key, int] = {}
        self._standing: dict[Key, list[LineUnit]] = {}

    def enter(self, unit: LineUnit) -> None:
        """Enter the commit queue, or wait here for a predecessor."""
        if self._has_predecessor(unit) or not unit.is_ahead or not self.stand(unit):
            self._queue_up(unit)

    def stand(self, unit: LineUnit) -> bool:
        """Let the unit wait, or enqueue it if it need not; False if its deadline passed or no place is left."""
        now = self.box.loop.time()
        if unit.deadline is None:
            unit.deadline = now + self.wait_s
            unit.future.add_done_callback(unit.leave)
        parked = Parked(unit.topic_id, unit.stamp, unit.wake)
        if now >= unit.deadline or not self.writer.parking.enter(parked):
            return False
        unit.parked = parked
        unit.timer = self.box.loop.call_at(unit.deadline, self.try_again, unit)
        self._standing.setdefault(unit.key, []).append(unit)
        self.look_again(unit)
        return True

    def look_again(self, unit: LineUnit) -> None:
        """Enqueue the unit if it need not wait any more."""
        parked = unit.parked
        if parked is not None and not self.writer.parking.must_wait(parked):
            self._queue_up(unit)

    def leave(self, unit: LineUnit) -> None:
        """Stop waiting here, if the unit did."""
        if unit.parked is None:
            return
        self.writer.parking.leave(unit.parked)
        unit.parked = None
        if unit.timer is not None:
            unit.timer.cancel()
        beside = self._standing[unit.key]
        beside.remove(unit)
        if not beside:
            del self._standing[unit.key]

    def answered(self, unit: LineUnit) -> None:
        """Forget the unit as the last in flight: `Producers` knows its outcome by now."""
        following = self._following
        if following.get(unit.key) == unit.following:
            del following[unit.key]

    def try_again(self, unit: LineUnit) -> None:
        """Enqueue the unit a last time at its deadline."""
        if unit.parked is not None:
            self._queue_up(unit)

    def _has_predecessor(self, unit: LineUnit) -> bool:
        """Cheap check whether the predecessor is stored or in flight; may miss one."""
        stamp, key = unit.stamp, unit.key
        return (
            not stamp.sequence
            or self.writer.producers.is_plainly_next(key, stamp)
            or self._following.get(key, -1) >= stamp.sequence
        )

    def _queue_up(self, unit: LineUnit) -> None:
        """Enqueue the unit, and right behind it the requests that wait for it here."""
        if not self._standing:  # nearly always
            self._following[unit.key] = unit.following
            if self.writer.turns.enter(unit):
                unit.lead()
            return
        leader: LineUnit | None = None
        entering: LineUnit | None = unit
        while entering is not None:
            self.leave(entering)
            self._following[entering.key] = entering.following
            if self.writer.turns.enter(entering):
                leader = entering
            entering = self._follower(entering)
        if leader is not None:
            leader.lead()

    def _follower(self, unit: LineUnit) -> LineUnit | None:
        for other in self._standing.get(unit.key, ()):
            if other.stamp.sequence == unit.following and other.stamp.epoch == unit.stamp.epoch:
                return other
        return None


class LineUnit(AppendTicket):
    """An idempotent request that a task awaits."""

    __slots__ = ("deadline", "following", "key", "line", "parked", "stamp", "timer", "topic_id")

    def __init__(self, line: AsyncInOrderQueue, live: TopicState, request: Request, stamp: ProducerStamp) -> None:
        super().__init__(line.writer, live, request, line.box)
        self.line = line
        self.stamp = stamp
        self.topic_id = live.id
        self.key = stamp.producer_id, live.id
        self.following = stamp.sequence + request.count
        #: set when the request is first found too early
        self.deadline: float | None = None
        #: set while the request waits in the in-order queue
        self.parked: Parked | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def is_ahead(self) -> bool:
        """True if the request is only too early, and not refused for another reason."""
        live = self.live
        open_ = live is not None and live.closed is None and not live.deleted
        return open_ and self.writer.producers.is_ahead(self.topic_id, self.stamp)

    def wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: no task waits there any more
            self.box.loop.call_soon_threadsafe(self.line.look_again, self)

    def leave(self, _future: object = None) -> None:
        """Stop waiting for a predecessor; a request already in the commit queue is stored all the same."""
        self.line.leave(self)

    def settle(self) -> None:
        self.line.answered(self)
        if isinstance(self.error, OutOfOrderSequence) and not self.future.done():
            refusal, self.error = self.error, None
            if self.line.stand(self):
                return
            self.error = refusal
        super().settle()
