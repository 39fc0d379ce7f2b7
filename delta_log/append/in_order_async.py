"""The line of an event loop: requests of idempotent producers, each behind those that it follows.

A request that came before its predecessor stands here, outside the queue. When the predecessor enters the queue here it
enters right behind, so that both are one group; when it is stored by way of another loop or thread, `EarlyRequests`
says so. The sequencer alone decides: what it finds too early after all comes back, and stands here again. When the
time is over it tries once more, and that answer stands.
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
    """Of one loop, and used by it alone. `wait_s`: how long one may wait for its predecessors."""

    def __init__(self, writer: Writer, box: LoopReplies, wait_s: float) -> None:
        self.box = box
        self.writer = writer
        self.wait_s = wait_s
        #: what follows the last that entered the queue here, as long as that is under way
        self._following: dict[Key, int] = {}
        self._standing: dict[Key, list[LineUnit]] = {}

    def enter(self, unit: LineUnit) -> None:
        """Queue up, or stand in the line."""
        if self._has_predecessor(unit) or not unit.is_ahead or not self.stand(unit):
            self._queue_up(unit)

    def stand(self, unit: LineUnit) -> bool:
        """Wait, unless it need not any more; False where it may not."""
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
        """Whether it still must wait."""
        parked = unit.parked
        if parked is not None and not self.writer.parking.must_wait(parked):
            self._queue_up(unit)

    def leave(self, unit: LineUnit) -> None:
        """Stand here no more, if it did."""
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
        """What became of it is known to `Producers`, too."""
        following = self._following
        if following.get(unit.key) == unit.following:
            del following[unit.key]

    def try_again(self, unit: LineUnit) -> None:
        """Its time is over."""
        if unit.parked is not None:
            self._queue_up(unit)

    def _has_predecessor(self, unit: LineUnit) -> bool:
        """Whether it was stored or is under way, as far as that can be seen at a glance."""
        stamp, key = unit.stamp, unit.key
        return (
            not stamp.sequence
            or self.writer.producers.is_plainly_next(key, stamp)
            or self._following.get(key, -1) >= stamp.sequence
        )

    def _queue_up(self, unit: LineUnit) -> None:
        """It, and right behind it those that waited for it here."""
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
    """Of a task that awaits an idempotent request."""

    __slots__ = ("deadline", "following", "key", "line", "parked", "stamp", "timer", "topic_id")

    def __init__(self, line: AsyncInOrderQueue, live: TopicState, request: Request, stamp: ProducerStamp) -> None:
        super().__init__(line.writer, live, request, line.box)
        self.line = line
        self.stamp = stamp
        self.topic_id = live.id
        self.key = stamp.producer_id, live.id
        self.following = stamp.sequence + request.count
        #: since it was too early for the first time
        self.deadline: float | None = None
        #: while it stands in the line
        self.parked: Parked | None = None
        self.timer: asyncio.TimerHandle | None = None

    @property
    def is_ahead(self) -> bool:
        """Whether nothing is wrong with it but that it came too early."""
        live = self.live
        open_ = live is not None and live.closed is None and not live.deleted
        return open_ and self.writer.producers.is_ahead(self.topic_id, self.stamp)

    def wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            self.box.loop.call_soon_threadsafe(self.line.look_again, self)

    def leave(self, _future: object = None) -> None:
        """Nobody waits for it any more; what is in the queue is stored all the same."""
        self.line.leave(self)

    def settle(self) -> None:
        self.line.answered(self)
        if isinstance(self.error, OutOfOrderSequence) and not self.future.done():
            refusal, self.error = self.error, None
            if self.line.stand(self):
                return
            self.error = refusal
        super().settle()
