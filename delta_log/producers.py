"""Idempotent producers: which request is new, which is a repeat, which is refused. Pure.

State is kept per producer and topic: the epoch and the last five requests. A repeat of one of them is answered with
its offsets; what lies before them was surely stored. The rows are journaled with the records that they speak of and
later lie in a table of their own; `replay` is the only thing that changes state, at start and after a write alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from delta_log.errors import InvalidStamp, OutOfOrderSequence, SequenceReused, StaleProducerEpoch
from delta_log.names import check_id
from delta_log.types import OffsetRange, ProducerStamp

REMEMBERED: Final = 5
_INT32_MAX: Final = 2**31 - 1
_INT64_MAX: Final = 2**63 - 1


def check_stamp(stamp: ProducerStamp, count: int) -> None:
    """Refuse what no table could hold: it would be found out only after it was acknowledged."""
    check_id("producer id", stamp.producer_id)
    for what, number, most in (
        ("epoch", stamp.epoch, _INT32_MAX),
        ("sequence", stamp.sequence, _INT64_MAX - count),
    ):
        if type(number) is not int or not 0 <= number <= most:
            raise InvalidStamp(stamp.producer_id, f"{what} {number!r} is no whole number from 0 to {most}")


class ProducerRow(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One stored request. `partitions` is how many the topic had, so that a repeat is assigned as the first was."""

    producer_id: str
    topic: str
    topic_id: str
    epoch: int
    sequence: int
    count: int
    digest: bytes
    partitions: int
    ranges: tuple[tuple[int, int, int], ...]
    timestamp_ms: int

    @property
    def next_sequence(self) -> int:
        return self.sequence + self.count

    @property
    def key(self) -> tuple[str, str]:
        return self.producer_id, self.topic_id

    def offset_ranges(self) -> tuple[OffsetRange, ...]:
        return tuple(OffsetRange(*given) for given in self.ranges)


@dataclass(frozen=True, slots=True)
class New:
    """Store it."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """It is stored already; `row` is None when it is so old that its offsets are forgotten."""

    row: ProducerRow | None


Undo = tuple[tuple[str, str], tuple[ProducerRow, ...] | None, int | None]


class Producers:
    """What is known of every producer."""

    def __init__(self) -> None:
        self._recent: dict[tuple[str, str], tuple[ProducerRow, ...]] = {}
        self._epochs: dict[str, int] = {}

    def decide(self, topic_id: str, stamp: ProducerStamp, count: int, digest: bytes) -> New | Repeat:
        """What to do with a request; raises where the rules of sequence and epoch are broken."""
        epoch = self._epochs.get(stamp.producer_id, -1)
        if stamp.epoch < epoch:
            raise StaleProducerEpoch(stamp.producer_id, epoch, stamp.epoch)
        recent = self._recent.get((stamp.producer_id, topic_id), ())
        if not recent or recent[-1].epoch < stamp.epoch:
            recent = ()
        expected = recent[-1].next_sequence if recent else 0
        if stamp.sequence == expected:
            return New()
        if stamp.sequence > expected:
            raise OutOfOrderSequence(stamp.producer_id, expected, stamp.sequence)
        for row in recent:
            if row.sequence == stamp.sequence and (row.count, row.digest) == (count, digest):
                return Repeat(row)
        if recent and stamp.sequence + count <= recent[0].sequence:
            return Repeat(None)
        raise SequenceReused(stamp.producer_id, stamp.sequence)

    def replay(self, row: ProducerRow) -> Undo:
        """Remember a stored request; returns what `undo` needs when storing it failed after all."""
        before = self._recent.get(row.key)
        epoch = self._epochs.get(row.producer_id)
        same_epoch = before is not None and before[-1].epoch == row.epoch
        kept = before[-(REMEMBERED - 1) :] if before is not None and same_epoch else ()
        self._recent[row.key] = (*kept, row)
        self._epochs[row.producer_id] = max(row.epoch, -1 if epoch is None else epoch)
        return row.key, before, epoch

    def undo(self, undo: Undo) -> None:
        key, before, epoch = undo
        if before is None:
            self._recent.pop(key, None)
        else:
            self._recent[key] = before
        if epoch is None:
            self._epochs.pop(key[0], None)
        else:
            self._epochs[key[0]] = epoch

    def rows(self) -> list[ProducerRow]:
        """Everything remembered, the requests of a producer in their order."""
        return [row for recent in self._recent.values() for row in recent]

    def forget_topic(self, topic_id: str) -> None:
        """A deleted topic's sequences begin anew with its next life."""
        for key in [key for key in self._recent if key[1] == topic_id]:
            del self._recent[key]

    def expire(self, before_ms: int) -> None:
        """Forget who has been silent since before."""
        for key in [key for key, recent in self._recent.items() if recent[-1].timestamp_ms < before_ms]:
            del self._recent[key]
        alive = {key[0] for key in self._recent}
        self._epochs = {name: epoch for name, epoch in self._epochs.items() if name in alive}


def survivors(rows: list[ProducerRow]) -> list[ProducerRow]:
    """Of rows in their order, those that a fold of all would still remember."""
    producers = Producers()
    for row in rows:
        producers.replay(row)
    kept = {id(row) for row in producers.rows()}
    return [row for row in rows if id(row) in kept]
