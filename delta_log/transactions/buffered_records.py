"""The records of one open transaction: limits, and detection of repeats. Pure.

Records are numbered by topic, from 0 in each transaction, by their producer or else in order of arrival. They are kept
in order of arrival: as they were sent while they are few, else as places in a spill.

Some may belong to a stage, which has separate numbers. The commit chooses the stages and their order, so an abandoned
stage leaves nothing behind. Staged records are stored without a number, because the choice could leave gaps in the
numbers; they are stored only once because the commit happens only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from delta_log.append.append_unit import Prepared
from delta_log.model.errors import InvalidStamp, StaleProducerEpoch, TransactionTooLarge, UnknownStage
from delta_log.model.quoting import quoted
from delta_log.model.transaction_bounds import Bounds
from delta_log.model.types import ProducerStamp
from delta_log.records.idempotence import ProducerRow, Producers, Repeat
from delta_log.records.request import Part, Request, SpilledRows
from delta_log.topics.topic_state import TopicState
from delta_log.transactions.transaction_id import TransactionKey

MIB: Final = 1024 * 1024
#: Memory of a request beyond its bytes, for each of its partitions, measured; half of it once the request is spilled.
_OVERHEAD: Final = 1400


def cost_of(request: Request) -> int:
    """Memory of a request that is not spilled."""
    return request.size + _OVERHEAD * len(request.parts)


@dataclass(frozen=True, slots=True)
class Staged:
    """The answer to records of an open transaction: their partitions, because offsets are not assigned yet."""

    partitions: Sequence[int]
    count: int
    duplicate: bool = False


class Slice(NamedTuple):
    """The records of one request for one partition, in a spill."""

    partition: int
    kind: int
    rows: SpilledRows
    position: int
    length: int


@dataclass(slots=True)
class HeldRequest:
    live: TopicState
    request: Request
    stamp: ProducerStamp
    stage: str | None = None
    #: in place of the request's parts
    slices: list[Slice] | None = None


@dataclass(slots=True)
class BufferedRecords:
    """A transaction's records. `size`: their bytes; `cost`: memory before spilling; `memory`: the part not spilled."""

    key: TransactionKey
    bounds: Bounds
    requests: list[HeldRequest] = field(default_factory=list[HeldRequest])
    size: int = 0
    cost: int = 0
    memory: int = 0
    parts: int = 0
    _numbers: dict[str | None, Producers] = field(default_factory=dict[str | None, Producers])
    _next: dict[tuple[str | None, str], int] = field(default_factory=dict[tuple[str | None, str], int])

    def number(self, live: TopicState, given: ProducerStamp | None, stage: str | None = None) -> ProducerStamp:
        """The number of the next records; raises if they come from another producer or epoch."""
        name, epoch = self.key.transactional_id, self.key.epoch
        if given is None:
            return ProducerStamp(name, epoch, self._next.get((stage, live.id), 0))
        if given.producer_id != name:
            raise InvalidStamp(given.producer_id, f"in this transaction the producer is {quoted(name)}")
        if given.epoch < epoch:
            raise StaleProducerEpoch(name, epoch, given.epoch)
        if given.epoch > epoch:
            raise InvalidStamp(name, f"epoch {given.epoch} is not that of this transaction, {epoch}")
        return given

    def is_repeat(self, given: HeldRequest) -> bool:
        """Check for a repeat; raises if the request breaks the rules of sequence, or the limits."""
        request = given.request
        numbers = self._numbers.get(given.stage) or Producers(self.key.epoch)
        decision = numbers.decide(given.live.id, given.stamp, request.count, request.digest)
        if isinstance(decision, Repeat):
            return True
        if request.refusal is not None:
            raise request.refusal
        self.check_size(request.size)
        parts, most = self.parts + len(request.parts), self.bounds.most_parts
        if parts > most:
            raise TransactionTooLarge(self.key.id, "parts", parts, most)
        return False

    def check_size(self, more: int) -> None:
        if self.size + more > self.bounds.most_bytes:
            raise TransactionTooLarge(self.key.id, "transaction.max.bytes", self.size + more, self.bounds.most_bytes)

    def add(self, more: int) -> None:
        """Add the size of additions, which stay in memory."""
        self.size += more
        self.cost += more

    def take(self, held: HeldRequest, cost: int) -> None:
        """Add a request to the transaction; `cost` is its memory before spilling."""
        live, request, stamp = held.live, held.request, held.stamp
        row = (stamp.producer_id, live.name, live.id, stamp.epoch, stamp.sequence, request.count, request.digest)
        numbers = self._numbers.setdefault(held.stage, Producers(self.key.epoch))
        numbers.replay(ProducerRow(*row, request.partitions, (), request.timestamp_ms))
        self._next[held.stage, live.id] = stamp.sequence + request.count
        self.requests.append(held)
        self.size += request.size
        self.cost += cost
        self.memory += cost if held.slices is None else 0
        self.parts += len(request.parts if held.slices is None else held.slices)

    def in_memory(self) -> list[HeldRequest]:
        return [held for held in self.requests if held.slices is None]

    def spilled(self, places: Sequence[tuple[HeldRequest, list[Slice]]]) -> None:
        """Note the places of requests that have moved from memory to the spill."""
        for held, slices in places:
            held.slices, held.request.parts, held.request.assignment = slices, [], ()
            held.request.reassign = None
        self.memory = 0

    def chosen(self, stages: Sequence[str] | None) -> list[HeldRequest]:
        """The requests to commit: all in order of arrival, or those in no stage and then the given stages in order."""
        if stages is None:
            return self.requests
        by_stage: dict[str | None, list[HeldRequest]] = {}
        for held in self.requests:
            by_stage.setdefault(held.stage, []).append(held)
        unknown = next((stage for stage in stages if stage not in by_stage), None)
        if unknown is not None:
            raise UnknownStage(self.key.id, unknown)
        return [held for stage in (None, *dict.fromkeys(stages)) for held in by_stage.get(stage, ())]

    def appends(self, spill: memoryview, stages: Sequence[str] | None = None) -> list[Prepared]:
        """The requests to commit, ready to be stored; spilled ones refer to the spill's bytes."""
        chosen = self.chosen(stages)
        for held in chosen:
            if held.slices is not None:
                held.request.parts = [
                    Part(at.partition, at.rows, at.kind, spill[at.position : at.position + at.length])
                    for at in held.slices
                ]
        return [Prepared(held.live, held.request) for held in chosen]
