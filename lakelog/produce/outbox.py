"""Send queue of a producer: the next attempt, the memory limit, decided batches. Pure: time and chance are given.

A driver adds records, asks `next` for the next attempt, makes it, and passes its verdict to `told`. It takes batches
from `decided`, in the order in which callers are notified, and calls `announced` after that. Nothing here blocks or
locks: a driver with threads holds its lock during every call.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

from lakelog.foundation.errors import LakelogError
from lakelog.foundation.names import check_topic
from lakelog.produce.batch import Batch, Payload, Stamp, Unit
from lakelog.produce.lane import Lane, LaneRules
from lakelog.produce.rows import Row
from lakelog.produce.settings import MOST_NUMBERED, ProducerSettings
from lakelog.produce.verdict import Verdict

B = TypeVar("B", bound=Batch)

#: Far below a server's limit for one request.
MOST_RECORDS: Final = 10_000
#: Above every deadline: no lane has anything to do later.
_ALL: Final = float("inf")


class Attempt(NamedTuple):
    """A request to send: a snapshot that stays the same when its unit changes meanwhile."""

    lane: Lane
    unit: Unit
    number: int
    topic: str
    payload: Payload
    stamp: Stamp | None
    timeout_s: float


class Outbox(Generic[B]):
    """Send queue of a producer. `new_batch` makes the driver's kind of batch from a topic, a number and a time."""

    def __init__(
        self,
        settings: ProducerSettings,
        *,
        new_batch: Callable[[str, int, float], B],
        new_id: Callable[[], str],
        chance: Callable[[], float],
    ) -> None:
        most = settings.max_in_flight_requests_per_connection
        self._rules = LaneRules(
            idempotent=settings.enable_idempotence,
            repeat_doubts=settings.acks != "0",
            linger_s=settings.linger_ms / 1000,
            delivery_s=settings.delivery_timeout_ms / 1000,
            retries=settings.retries,
            most_begun=min(most, MOST_NUMBERED) if settings.enable_idempotence else most,
            backoff=settings.backoff,
        )
        self._batch_size = min(settings.batch_size, settings.max_request_size)
        self._memory = settings.buffer_memory
        self._request_s = settings.request_timeout_ms / 1000
        self._most_in_flight = most
        self._new_batch, self._new_id, self._chance = new_batch, new_id, chance
        self._lanes: dict[str, Lane] = {}
        self._busy: deque[Lane] = deque()
        self._open: dict[str, B] = {}
        self._through: float = -1
        self._pressed = False
        self._batches = 0
        self.in_flight = 0
        self.held = 0
        #: Batches by number, until their callers are notified.
        self.outstanding: dict[int, B] = {}
        self.decided: deque[B] = deque()

    def add(self, topic: str, row: Row, size: int, now: float) -> B | None:
        """Append a record; returns its batch, in which it is the last, or None if the memory is full."""
        if self.held + size > self._memory and self.held:
            self._pressed = True
            return None
        batch = self._open.get(topic)
        if batch is None or batch.size + size > self._batch_size:
            batch = self._open_batch(topic, batch, now)
        self.held += size
        batch.rows.append(row)
        batch.size += size
        if batch.size >= self._batch_size or len(batch.rows) >= MOST_RECORDS:
            batch.full = True
            del self._open[topic]
        return batch

    def next(self, now: float) -> Attempt | float | None:
        """Attempt to make; or the time to ask again; or None: ask when something has changed."""
        soonest: float = _ALL
        for _ in range(len(self._busy)):
            lane = self._busy[0]
            lane.expire(now)
            if lane.idle:
                self._busy.popleft()
                continue
            self._busy.rotate(-1)
            soonest = min(soonest, lane.deadline)
            if self.in_flight >= self._most_in_flight:
                continue
            step = lane.next_unit(now, self._through, pressed=self._pressed)
            if isinstance(step, Unit):
                return self._attempt(lane, step, now)
            if step is not None:
                soonest = min(soonest, step)
        return None if soonest == _ALL else soonest

    def told(self, attempt: Attempt, verdict: Verdict, now: float) -> None:
        """Apply the verdict on an attempt; ignored if its unit was decided or renumbered since."""
        self.in_flight -= 1
        if attempt.unit.attempt == attempt.number:
            attempt.lane.told(attempt.unit, verdict, now)

    def flush(self) -> int:
        """Let all added records go without lingering; returns the number of their last batch."""
        self._through = self._batches
        return self._batches

    def abort(self, error: LakelogError) -> None:
        """Fail everything at once: as not stored where that is certain, else with an unknown outcome."""
        self._busy.clear()
        for lane in self._lanes.values():
            lane.abort(error)

    def surrender(self, error: LakelogError) -> None:
        """Fail everything after an internal error, without relying on the lanes' state."""
        for lane in self._lanes.values():
            for unit in lane.begun:
                unit.attempt += 1
        self._busy.clear()
        self._lanes.clear()
        for batch in self.outstanding.values():
            if not batch.settled:
                batch.fail(range(len(batch.rows)), error)
                batch.settle()
                self.decided.append(batch)

    def announced(self, batch: B) -> None:
        del self.outstanding[batch.number]

    def is_flushed(self, through: int) -> bool:
        return next(iter(self.outstanding), through + 1) > through

    def _open_batch(self, topic: str, before: B | None, now: float) -> B:
        if before is not None:
            before.full = True
        lane = self._lanes.get(topic)
        if lane is None:
            check_topic(topic)
            lane = Lane(topic, self._rules, new_id=self._new_id, chance=self._chance, settled=self._settle)
            self._lanes[topic] = lane
        if lane.idle and lane not in self._busy:
            self._busy.append(lane)
        self._batches += 1
        batch = self._new_batch(topic, self._batches, now)
        lane.waiting.append(batch)
        self.outstanding[self._batches] = self._open[topic] = batch
        return batch

    def _attempt(self, lane: Lane, unit: Unit, now: float) -> Attempt:
        if self._open.get(lane.topic) is unit.batch:
            del self._open[lane.topic]
        lane.send(unit)
        self.in_flight += 1
        timeout_s = min(self._request_s, max(0.001, unit.batch.born + self._rules.delivery_s - now))
        return Attempt(lane, unit, unit.attempt, lane.topic, unit.payload, unit.stamp, timeout_s)

    def _settle(self, batch: Batch) -> None:
        """Take a finished batch from its lane."""
        own = self.outstanding[batch.number]
        if self._open.get(batch.topic) is own:
            del self._open[batch.topic]
        self.held -= batch.size
        self._pressed = False
        batch.settle()
        self.decided.append(own)
