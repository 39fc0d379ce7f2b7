"""Idempotent producers: which request is new, which is a repeat, which is refused. Pure.

State is kept per producer and topic: the epoch and the last five requests. A repeat of one of them is answered with
its offsets; what lies before them was surely stored. A bump opens an epoch without a request: a row of no topic. The
rows are journaled with the records that they speak of and later lie in a table of their own; `replay` is the only
thing that changes state, at start and after a write alike.
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
    """One stored request, or a bump, which has no topic and no records.

    `partitions` is how many the topic had, so that a repeat is assigned as the first was.
    """

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


Undo = tuple[tuple[str, str], tuple[ProducerRow, ...] | None, ProducerRow | None]


class Producers:
    """What is known of every producer.

    Rows are replayed in the order in which they were stored, so the last one of a producer says its epoch: a smaller
    one than before is that of a producer that was forgotten meanwhile.
    """

    def __init__(self) -> None:
        self._recent: dict[tuple[str, str], tuple[ProducerRow, ...]] = {}
        self._last: dict[str, ProducerRow] = {}

    def decide(self, topic_id: str, stamp: ProducerStamp, count: int, digest: bytes) -> New | Repeat:
        """What to do with a request; raises where the rules of sequence and epoch are broken."""
        epoch = self._epoch(stamp.producer_id)
        if stamp.epoch < epoch:
            raise StaleProducerEpoch(stamp.producer_id, epoch, stamp.epoch)
        recent = self._of_epoch(topic_id, stamp)
        expected = _expected(recent)
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

    def is_ahead(self, topic_id: str, stamp: ProducerStamp) -> bool:
        """Whether a request before this one is missing, and may still come."""
        fenced = stamp.epoch < self._epoch(stamp.producer_id)
        return not fenced and stamp.sequence > _expected(self._of_epoch(topic_id, stamp))

    def decide_bump(self, producer_id: str, now_ms: int) -> ProducerRow:
        """The row that opens the next epoch of a producer, 0 of an unknown one, and shuts out all before."""
        epoch = self._epoch(producer_id) + 1
        if epoch > _INT32_MAX:
            raise InvalidStamp(producer_id, f"epoch {epoch - 1} is the last there is; take another id")
        return ProducerRow(producer_id, "", "", epoch, 0, 0, b"", 0, (), now_ms)

    def replay(self, row: ProducerRow) -> Undo:
        """Remember what was stored; returns what `undo` needs when storing it failed after all."""
        before, last = self._recent.get(row.key), self._last.get(row.producer_id)
        goes_on = before is not None and before[-1].epoch == row.epoch and before[-1].next_sequence <= row.sequence
        kept = before[-(REMEMBERED - 1) :] if before is not None and goes_on else ()
        self._recent[row.key] = (*kept, row)
        self._last[row.producer_id] = row
        return row.key, before, last

    def undo(self, undo: Undo) -> None:
        key, before, last = undo
        if before is None:
            self._recent.pop(key, None)
        else:
            self._recent[key] = before
        if last is None:
            self._last.pop(key[0], None)
        else:
            self._last[key[0]] = last

    @property
    def count(self) -> int:
        """How many producers are remembered."""
        return len(self._last)

    def rows(self) -> list[ProducerRow]:
        """Everything remembered, the requests of a producer in their order."""
        return [row for recent in self._recent.values() for row in recent]

    def forget_topic(self, topic_id: str) -> None:
        """A deleted topic's sequences begin anew with its next life; the epochs of who wrote to it stay."""
        for key in [key for key in self._recent if key[1] == topic_id]:
            del self._recent[key]

    def expire(self, before_ms: int) -> None:
        """Forget who has been silent since before; of who has not, the last row stays as long, as it says the epoch."""
        heard = [*self._last.values(), *(recent[-1] for recent in self._recent.values())]
        alive = {row.producer_id for row in heard if row.timestamp_ms >= before_ms}
        self._last = {name: row for name, row in self._last.items() if name in alive}
        lasting = {row.key for row in self._last.values()}
        self._recent = {
            key: recent
            for key, recent in self._recent.items()
            if recent[-1].timestamp_ms >= before_ms or key in lasting
        }

    def _epoch(self, producer_id: str) -> int:
        last = self._last.get(producer_id)
        return -1 if last is None else last.epoch

    def _of_epoch(self, topic_id: str, stamp: ProducerStamp) -> tuple[ProducerRow, ...]:
        recent = self._recent.get((stamp.producer_id, topic_id), ())
        return recent if recent and recent[-1].epoch == stamp.epoch else ()


def _expected(recent: tuple[ProducerRow, ...]) -> int:
    return recent[-1].next_sequence if recent else 0


def survivors(rows: list[ProducerRow], silent_since_ms: int | None = None) -> list[ProducerRow]:
    """Of rows in their order, those that a fold of all would still remember."""
    producers = Producers()
    for row in rows:
        producers.replay(row)
    if silent_since_ms is not None:
        producers.expire(silent_since_ms)
    kept = {id(row) for row in producers.rows()}
    return [row for row in rows if id(row) in kept]
