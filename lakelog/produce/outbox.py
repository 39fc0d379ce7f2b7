"""All topics of a producer: what to send next, how much may wait, and what is decided. Pure: time and chance are given.

A driver adds records, asks `next` what to do, does it, and tells what became of it. It takes what is decided from
`decided`, in the order in which callers may hear of it, and says `announced` when they have. Nothing here waits, and
one caller at a time is let in: a driver of threads holds its lock.
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

#: Far below what a server takes in one request.
MOST_RECORDS: Final = 10_000
#: Not the end of time, but a time that no batch's number reaches.
_ALL: Final = float("inf")


class Attempt(NamedTuple):
    """A request to be made. What it carries stays as it is, whatever becomes of its unit meanwhile."""

    lane: Lane
    unit: Unit
    number: int
    topic: str
    payload: Payload
    stamp: Stamp | None
    timeout_s: float


class Outbox(Generic[B]):
    """`new_batch` makes one of a driver's own kind, of its topic, its number and its time."""

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
        #: Batches by their numbers, until callers have heard of them.
        self.outstanding: dict[int, B] = {}
        self.decided: deque[B] = deque()

    def add(self, topic: str, row: Row, size: int, now: float) -> B | None:
        """The batch that the record is the last one of; None where there is no room."""
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
        """What to send; or when to ask again; or None: when something has changed."""
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
        """What became of an attempt. Nobody asks any more about one whose unit was decided or renumbered since."""
        self.in_flight -= 1
        if attempt.unit.attempt == attempt.number:
            attempt.lane.told(attempt.unit, verdict, now)

    def flush(self) -> int:
        """Everything that was added goes out; answers the number of the last batch of it."""
        self._through = self._batches
        return self._batches

    def abort(self, error: LakelogError) -> None:
        """Decide everything at once: not stored where that is sure, else unknown."""
        self._busy.clear()
        for lane in self._lanes.values():
            lane.abort(error)

    def surrender(self, error: LakelogError) -> None:
        """Decide everything, after a fault of our own, whatever state that left things in."""
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
        """Of a lane: nothing is unknown of it any more."""
        own = self.outstanding[batch.number]
        if self._open.get(batch.topic) is own:
            del self._open[batch.topic]
        self.held -= batch.size
        self._pressed = False
        batch.settle()
        self.decided.append(own)
