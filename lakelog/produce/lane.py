"""The batches of one topic while they are sent: their order, sequence numbers and retries. Pure.

Units are sent and retried in the order of their batches; answers may arrive in any order. The laws:

- A unit leaves the lane when it and all units before it are decided, so that futures resolve in order.
- It is sent only when every unit before it is in flight or decided. At most five are begun at once: the server
  remembers no more.
- Each has a number, the sequence of its first record, and keeps it in every retry: it is stored once, whatever is lost.
- A number that is certainly never stored (a HOLE) is never filled by the units behind it, so none of their attempts
  can have been stored either. They restart at sequence 0 of the next epoch, which also fences requests of the old
  epoch that are still on the network.
- After a DOUBT no unit is begun until the units behind it are decided. If the last of them is stored, so is the unit
  in doubt, and the numbers continue. Otherwise the next epoch begins, and what was in doubt is stored before all
  that follows, or never.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from lakelog.foundation.errors import LakelogError, NotDelivered, OutcomeUnknown, SharedBatch
from lakelog.produce.batch import Batch, Fate, Stamp, Unit
from lakelog.produce.verdict import Ahead, Later, Refused, Skipped, Stored, TooLarge, Unknown, Verdict
from lakelog.transport.backoff import Backoff

#: How often the rest of a batch is sent again without its bad records; after that the rest is refused, too.
MOST_REFUSALS: Final = 20


class LaneRules(NamedTuple):
    """Settings of a producer that concern a lane. Without idempotence units have no numbers."""

    idempotent: bool
    repeat_doubts: bool
    linger_s: float
    delivery_s: float
    retries: int
    most_begun: int
    backoff: Backoff


class Lane:
    """Send queue of one topic of one producer.

    `new_id` makes a unique producer id, `chance` a random number from 0 to 1; `settled` is called with each finished
    batch.
    """

    def __init__(
        self,
        topic: str,
        rules: LaneRules,
        *,
        new_id: Callable[[], str],
        chance: Callable[[], float],
        settled: Callable[[Batch], None],
    ) -> None:
        self.topic = topic
        self.begun: deque[Unit] = deque()
        self.waiting: deque[Batch] = deque()
        self._rules = rules
        self._new_id = new_id
        self._chance = chance
        self._settled = settled
        self._producer_id = new_id()
        self._epoch = 0
        self._next_sequence = 0
        self._in_doubt = False

    @property
    def idle(self) -> bool:
        return not self.begun and not self.waiting

    @property
    def deadline(self) -> float:
        """Time at which the oldest batch is given up."""
        born = self.begun[0].batch.born if self.begun else self.waiting[0].born
        return born + self._rules.delivery_s

    def next_unit(self, now: float, through: float, *, pressed: bool) -> Unit | float | None:
        """Unit to send now; or the time to ask again; or None until something changes.

        Batches up to the number `through` do not linger; while a caller waits for memory (`pressed`), none does.
        """
        for unit in self.begun:
            if unit.in_flight or unit.fate in (Fate.STORED, Fate.DOUBT):
                continue
            unnumbered = unit.stamp is None and self._rules.idempotent
            if unit.fate is Fate.HOLE or (unnumbered and unit is not self.begun[0]):
                return None
            return unit if unit.ready_at <= now else unit.ready_at
        if not self.waiting or len(self.begun) >= self._rules.most_begun or self._doubts():
            return None
        if pressed or len(self.waiting) > 1 or self.waiting[0].full or self.waiting[0].number <= through:
            return self._begin()
        return self._begin_lingering(now)

    def send(self, unit: Unit) -> None:
        """Mark a unit as in flight."""
        if self._rules.idempotent and unit.stamp is None:
            self._restart()
        unit.in_flight = True
        unit.attempt += 1

    def told(self, unit: Unit, verdict: Verdict, now: float) -> None:
        """Apply the verdict on the last attempt of a unit."""
        unit.in_flight = False
        match verdict:
            case Stored(places):
                unit.batch.store(unit.indexes, places)
                unit.fate = Fate.STORED
            case Later(error, after_s):
                self._repeat(unit, error, now, after_s)
            case Skipped(error):
                self._skipped(unit, error, now)
            case Unknown(error, after_s):
                unit.doubtful = True
                if self._rules.repeat_doubts:
                    self._repeat(unit, error, now, after_s)
                else:
                    self._fail(unit, error)
            case Ahead(error):
                self._ahead(unit, error, now)
            case TooLarge(error):
                self._too_large(unit, error)
            case Refused():
                self._refused(unit, verdict)
        self._advance()

    def expire(self, now: float) -> None:
        """Give up units and batches that are past their deadline."""
        born_before = now - self._rules.delivery_s
        for unit in self.begun:
            if unit.fate is None and unit.batch.born <= born_before:
                self._give_up(unit, now)
        self._advance()
        while self.waiting and self.waiting[0].born <= born_before:
            batch = self.waiting.popleft()
            self._drop(batch, NotDelivered(self.topic, now - batch.born, 0, None))

    def abort(self, error: LakelogError) -> None:
        """Give up everything."""
        for unit in self.begun:
            if unit.fate is None:
                self._fail(unit, error)
        self._advance()
        while self.waiting:
            self._drop(self.waiting.popleft(), error)

    def _begin_lingering(self, now: float) -> Unit | float | None:
        """Begin the first batch when it has lingered long enough; until then it may grow."""
        if not self._rules.linger_s:
            return None if self.begun else self._begin()
        due = self.waiting[0].born + self._rules.linger_s
        return self._begin() if due <= now else due

    def _begin(self) -> Unit:
        batch = self.waiting.popleft()
        batch.begin()
        unit = Unit(batch, range(len(batch.rows)))
        self.begun.append(unit)
        if self._rules.idempotent:
            self._number(unit)
        return unit

    def _number(self, unit: Unit) -> None:
        unit.stamp = Stamp(self._producer_id, self._epoch, self._next_sequence)
        self._next_sequence += len(unit.indexes)

    def _restart(self) -> None:
        """Begin the next epoch: no unit that is begun was stored in the old one."""
        self._epoch += 1
        self._next_sequence = 0
        self._in_doubt = False
        for unit in self.begun:
            unit.renumber()
            self._number(unit)

    def _doubts(self) -> bool:
        return self._in_doubt or any(unit.fate is Fate.DOUBT for unit in self.begun)

    def _repeat(self, unit: Unit, error: LakelogError, now: float, after_s: float) -> None:
        unit.failures += 1
        unit.last = error
        if unit.failures > self._rules.retries:
            self._give_up(unit, now)
        else:
            unit.ready_at = now + max(after_s, self._rules.backoff.pause_s(unit.failures, self._chance()))

    def _ahead(self, unit: Unit, error: LakelogError, now: float) -> None:
        """Handle Ahead: for the lane's first unit, the server forgot this producer or the topic was recreated."""
        if unit is not self.begun[0]:
            unit.ready_at = now + self._rules.backoff.pause_s(1, self._chance())
        elif unit.doubtful:
            self._fail(unit, error)
        else:
            unit.renumber()
            self._repeat(unit, error, now, 0.0)

    def _skipped(self, unit: Unit, error: LakelogError, now: float) -> None:
        """Handle Skipped: an epoch's first request has the epochs between opened; all others wait for it."""
        if unit.stamp is None or not unit.stamp.sequence:
            self._repeat(unit, error, now, 0.0)
        else:
            unit.ready_at = now + self._rules.backoff.pause_s(1, self._chance())

    def _refused(self, unit: Unit, refused: Refused) -> None:
        """Retry without the bad records: nothing of the refused attempt was stored."""
        if refused.foreign:
            self._producer_id = self._new_id()
        if unit.doubtful or not refused.bad:
            self._fail(unit, refused.error)
            return
        for place, error in refused.bad.items():
            unit.batch.fail((unit.indexes[place],), error)
        unit.keep([index for place, index in enumerate(unit.indexes) if place not in refused.bad])
        if not unit.indexes:
            unit.fate = Fate.HOLE
        elif unit.refusals > MOST_REFUSALS:
            self._fail(unit, SharedBatch(self.topic, refused.error.said))

    def _too_large(self, unit: Unit, error: LakelogError) -> None:
        if unit.doubtful or len(unit.indexes) == 1:
            self._fail(unit, error)
            return
        place = self.begun.index(unit)
        self.begun.remove(unit)
        for half in reversed(unit.split()):
            self.begun.insert(place, half)

    def _give_up(self, unit: Unit, now: float) -> None:
        self._fail(unit, NotDelivered(self.topic, now - unit.batch.born, unit.failures, unit.last))

    def _fail(self, unit: Unit, error: LakelogError) -> None:
        doubtful = unit.in_flight or unit.doubtful
        if doubtful and not isinstance(error, OutcomeUnknown):
            why = error.why if isinstance(error, NotDelivered) else error
            error = OutcomeUnknown(f"storing {len(unit.indexes)} records for {self.topic}", why, said=error.said)
        unit.batch.fail(unit.indexes, error)
        unit.in_flight = False
        unit.attempt += 1
        unit.fate = Fate.DOUBT if doubtful else Fate.HOLE

    def _advance(self) -> None:
        """Remove decided units from the front, in order."""
        while self.begun and self.begun[0].fate is not None:
            unit = self.begun.popleft()
            if self._rules.idempotent:
                self._in_doubt = unit.fate is Fate.DOUBT or (self._in_doubt and unit.fate is not Fate.STORED)
                if unit.fate is Fate.HOLE:
                    self._restart()
            if not unit.batch.left and not any(other.batch is unit.batch for other in self.begun):
                self._settled(unit.batch)
        if self._in_doubt and not self.begun:
            self._restart()

    def _drop(self, batch: Batch, error: LakelogError) -> None:
        """Give up a batch that was never sent."""
        batch.begin()
        batch.fail(range(len(batch.rows)), error)
        self._settled(batch)
