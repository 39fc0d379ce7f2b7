"""The records of one open transaction: what it may take, and what is a repeat. Pure.

Records are numbered by topic, from 0 in each transaction, by who sends them or else as they come. They are kept in the
order in which they came: as they were sent while they are few, else as places in a spill.

A part of them may be a stage, which has numbers of its own. The commit says which stages count, and in which order, so
one that somebody began and did not end leaves nothing behind. What is in a stage is stored without a number, as it is
not known before which numbers would have none missing: the commit, which happens once, has it stored once.
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
#: What a request takes beside its bytes for each partition that it goes to, measured; half of that once it is spilled.
_OVERHEAD: Final = 1400


def cost_of(request: Request) -> int:
    """What it takes of memory while it is kept as it came."""
    return request.size + _OVERHEAD * len(request.parts)


@dataclass(frozen=True, slots=True)
class Staged:
    """The answer to records of an open transaction: the partition of each, as the offsets are not given out yet."""

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
    """`size` is the bytes of it, `cost` what it may take of memory, and `memory` what of that has not been spilled."""

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
        """The number of what comes next; raises where it was sent by somebody else."""
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
        """Whether it was taken before; raises where it breaks the rules of sequence, or the bounds."""
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
        """What it has beside records takes so much more, all of it in memory."""
        self.size += more
        self.cost += more

    def take(self, held: HeldRequest, cost: int) -> None:
        """It is part of the transaction from now on; `cost` is what it would be as it came."""
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
        """So much lies in the spill now, and not in memory."""
        for held, slices in places:
            held.slices, held.request.parts, held.request.assignment = slices, [], ()
            held.request.reassign = None
        self.memory = 0

    def chosen(self, stages: Sequence[str] | None) -> list[HeldRequest]:
        """What counts: all as it came, or what is in no stage and then these, one after the other."""
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
        """What counts, as it will be stored; what was spilled is as it lies there."""
        chosen = self.chosen(stages)
        for held in chosen:
            if held.slices is not None:
                held.request.parts = [
                    Part(at.partition, at.rows, at.kind, spill[at.position : at.position + at.length])
                    for at in held.slices
                ]
        return [Prepared(held.live, held.request) for held in chosen]
