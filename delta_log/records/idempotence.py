"""Idempotent producers: decides whether a request is new, a repeat, or refused. Pure.

State is kept per producer and topic: the epoch and the last five requests. A repeat of one of them is answered with
its offsets; requests before them were certainly stored. A bump opens an epoch without a request: a row without a topic.
The rows are journaled with the records that they describe, and are later kept in a table of their own; `replay`
changes state, both at start and after a write.

A bump may reserve epochs after its own, as many as its `count`. For a limited time the next of them are opened in
memory alone. A start treats all of them as opened, so none is assigned twice, whatever was forgotten.

A request's epoch is the current one, or the next: so a forged epoch cannot use up another producer's epochs. A log
written before that rule may hold an id at the last epoch: there a bump continues at a lower number (`next_epoch`).

The module is long, as the rules of sequences, epochs, expiry and undo concern the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from delta_log.model.errors import (
    InvalidStamp,
    OutOfOrderSequence,
    ProducerEpochTooHigh,
    SequenceReused,
    StaleProducerEpoch,
)
from delta_log.model.names import check_id
from delta_log.model.quoting import quoted
from delta_log.model.types import OffsetRange, ProducerStamp

REMEMBERED: Final = 5
#: Time during which reserved epochs may be opened, and the most reserved at once.
RESERVED_MS: Final = 60_000
_MOST_RESERVED: Final = 1023
#: The bytes of a digest for the content; the rest is for the assignment to partitions, if there were several.
CONTENT_BYTES: Final = 16
#: The highest first epoch of an unknown producer: one that counts its epochs itself continues after it was forgotten.
MOST_FIRST_EPOCH: Final = 2**15 - 1
_INT32_MAX: Final = 2**31 - 1
#: Where the count continues after the last epoch: above any epoch reached by counting, and so far below the last that
#: the distance of two epochs shows the later one (`is_later`).
_AGAIN: Final = 2**29
_INT64_MAX: Final = 2**63 - 1


def check_stamp(stamp: ProducerStamp, count: int) -> None:
    """Refuse values that no table could hold: otherwise they would fail only after the acknowledgement."""
    check_id("producer id", stamp.producer_id)
    _check_number(stamp, "epoch", stamp.epoch, _INT32_MAX)
    _check_number(stamp, "sequence", stamp.sequence, _INT64_MAX - count)


def _check_number(stamp: ProducerStamp, what: str, number: int, most: int) -> None:
    if type(number) is not int or not 0 <= number <= most:
        raise InvalidStamp(stamp.producer_id, f"{what} {quoted(number)} is no whole number from 0 to {most}")


class ProducerRow(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A stored request, or a bump, which has no topic and no records; a bump's `count`: the epochs that it reserves.

    `partitions`: their number at that time, so that a repeat is assigned like the first request.
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

    @property
    def last_epoch(self) -> int:
        """The last epoch that a bump opened or reserved."""
        return self.epoch + self.count

    @property
    def heard_ms(self) -> int:
        """Latest time at which its producer may have been active: reserved epochs are opened after the bump."""
        return self.timestamp_ms + RESERVED_MS if self.count and not self.topic_id else self.timestamp_ms

    def offset_ranges(self) -> tuple[OffsetRange, ...]:
        return tuple(OffsetRange(*given) for given in self.ranges)


@dataclass(frozen=True, slots=True)
class New:
    """Decision: the request is new, store it."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """Decision: the request is stored already; `row` is None if it is so old that its offsets are forgotten."""

    row: ProducerRow | None


_NEW: Final = New()
#: The key, and the former state of it and of its producer.
Undo = tuple[tuple[str, str], tuple[ProducerRow, ...] | None, ProducerRow | None, int | None]


class Producers:
    """The state of every producer.

    Rows are replayed in the order in which they were stored, so a producer's last row has its epoch: a smaller epoch
    than before is that of a producer that was forgotten meanwhile.
    """

    def __init__(self, most_first: int = MOST_FIRST_EPOCH) -> None:
        #: the highest first epoch of an unknown producer
        self._most_first = most_first
        self._recent: dict[tuple[str, str], tuple[ProducerRow, ...]] = {}
        self._last: dict[str, ProducerRow] = {}
        #: the epoch of producers whose last row does not have it
        self._opened: dict[str, int] = {}
        #: epochs that a start treated as opened
        self._passed: dict[str, int] = {}

    def decide(self, topic_id: str, stamp: ProducerStamp, count: int, digest: bytes) -> New | Repeat:
        """Decide on a request; raises if it breaks the rules of sequence and epoch."""
        if self.is_plainly_next((stamp.producer_id, topic_id), stamp):
            return _NEW
        epoch = self.epoch_of(stamp.producer_id)
        if stamp.epoch < epoch:
            raise StaleProducerEpoch(stamp.producer_id, epoch, stamp.epoch)
        if stamp.epoch > self._most_epoch(epoch):
            raise ProducerEpochTooHigh(stamp.producer_id, epoch, stamp.epoch)
        recent = self._of_epoch(topic_id, stamp)
        expected = _expected(recent)
        if stamp.sequence == expected:
            return _NEW
        if stamp.sequence > expected:
            raise OutOfOrderSequence(stamp.producer_id, expected, stamp.sequence)
        for row in recent:
            if row.sequence == stamp.sequence and (row.count, row.digest[:CONTENT_BYTES]) == (count, digest):
                return Repeat(row)
        if recent and stamp.sequence + count <= recent[0].sequence:
            return Repeat(None)
        raise SequenceReused(stamp.producer_id, stamp.sequence)

    def is_plainly_next(self, key: tuple[str, str], stamp: ProducerStamp) -> bool:
        """True if it follows its producer's last request, as most do; if false, the request may still be new."""
        recent = self._recent.get(key)
        if recent is None:
            return False
        row = recent[-1]
        follows = row.sequence + row.count == stamp.sequence and row.epoch == stamp.epoch
        return follows and self._last.get(key[0]) is row and key[0] not in self._opened

    def is_ahead(self, topic_id: str, stamp: ProducerStamp) -> bool:
        """True if an earlier request is missing, and may still arrive."""
        epoch = self.epoch_of(stamp.producer_id)
        refused = not epoch <= stamp.epoch <= self._most_epoch(epoch)
        return not refused and stamp.sequence > _expected(self._of_epoch(topic_id, stamp))

    def epoch_of(self, producer_id: str) -> int:
        """The current epoch of a producer; −1 if it is unknown, or was forgotten."""
        last = self._last.get(producer_id)
        return -1 if last is None else max(last.epoch, self._opened.get(producer_id, -1))

    def next_epoch(self, producer_id: str, floor: int = 0) -> int:
        """The epoch after all opened ones, and at least `floor`, unless that is from an earlier count.

        After the highest possible epoch the count continues at `_AGAIN`: holders of earlier epochs stay fenced, as
        theirs is lower, or too high.
        """
        current = self.epoch_of(producer_id)
        epoch = max(current + 1, floor) if current < 0 or is_later(floor, current) else current + 1
        if epoch <= _INT32_MAX:
            return epoch
        known = [recent[-1].epoch for (name, _), recent in self._recent.items() if name == producer_id]
        return max((epoch + 1 for epoch in known if _AGAIN <= epoch < 2 * _AGAIN), default=_AGAIN)

    def decide_bump(self, producer_id: str, now_ms: int, floor: int = 0, *, reserves: bool = False) -> ProducerRow:
        """The row that opens a producer's next epoch, and fences all earlier ones; see `next_epoch`.

        With `reserves`, it reserves twice as many as were opened since the last bump, if that was recent: so a
        producer that begins only now and then gets consecutive epochs.
        """
        epoch = self.next_epoch(producer_id, floor)
        count, before = 0, self._bump_of(producer_id)
        if (
            reserves
            and before is not None
            and epoch > before.epoch
            and 0 <= now_ms - before.timestamp_ms < 2 * RESERVED_MS
        ):
            used = min(epoch - before.epoch, before.count + 1)
            count = min(2 * used, _MOST_RESERVED, _INT32_MAX - epoch)
        return ProducerRow(producer_id, "", "", epoch, 0, count, b"", 0, (), now_ms)

    def decide_reserved(self, producer_id: str, now_ms: int, floor: int = 0) -> int | None:
        """The next epoch if it is reserved and the reservation has not expired; None if a bump must be stored."""
        bump, epoch = self._bump_of(producer_id), self.next_epoch(producer_id, floor)
        if (
            bump is None
            or not bump.epoch < epoch <= bump.last_epoch
            or not 0 <= now_ms - bump.timestamp_ms < RESERVED_MS
        ):
            return None
        return epoch

    def open_reserved(self, producer_id: str, epoch: int) -> Undo:
        """Open a reserved epoch; holders of earlier ones are fenced."""
        undo = self._undo_of((producer_id, ""))
        self._opened[producer_id] = epoch
        return undo

    def close_reserved(self) -> None:
        """Treat all reserved epochs as opened after a start, as it is unknown which of them were.

        A last epoch below that of the bump is of a producer that was forgotten, together with its reservations.
        """
        for name, last in self._last.items():
            bump = self._bump_of(name)
            if bump is not None and last.epoch >= bump.epoch:
                self._opened[name] = self._passed[name] = bump.last_epoch

    def surely_opened(self, producer_id: str) -> int:
        """The highest epoch known to have been opened, without those that a start treated as opened."""
        last, opened = self._last.get(producer_id), self._opened.get(producer_id, -1)
        sure = -1 if opened == self._passed.get(producer_id) else opened
        return -1 if last is None else max(last.epoch, sure)

    def replay(self, row: ProducerRow) -> Undo:
        """Remember a stored row; returns the argument for `undo`, should storing it fail after all."""
        undo = self._undo_of((row.producer_id, row.topic_id))
        before = undo[1]
        kept = before[-(REMEMBERED - 1) :] if before is not None and _goes_on(before[-1], row) else ()
        self._recent[undo[0]] = (*kept, row)
        self._last[row.producer_id] = row
        if undo[3] is not None and is_later(row.epoch, undo[3]):
            del self._opened[row.producer_id]
        return undo

    def undo(self, undo: Undo) -> None:
        key, before, last, opened = undo
        if before is None:
            self._recent.pop(key, None)
        else:
            self._recent[key] = before
        if last is None:
            self._last.pop(key[0], None)
        else:
            self._last[key[0]] = last
        if opened is None:
            self._opened.pop(key[0], None)
        else:
            self._opened[key[0]] = opened

    @property
    def count(self) -> int:
        """Number of producers remembered."""
        return len(self._last)

    def rows(self) -> list[ProducerRow]:
        """Every row remembered, the requests of a producer in their order."""
        return [row for recent in self._recent.values() for row in recent]

    def forget_topic(self, topic_id: str) -> None:
        """Forget a deleted topic's sequences, which restart if it is recreated; its producers' epochs stay."""
        for key in [key for key in self._recent if key[1] == topic_id]:
            del self._recent[key]

    def expire(self, before_ms: int, used: Iterable[str] = ()) -> None:
        """Forget producers silent since `before_ms`; the last row of the others stays, as it has the epoch.

        Producers in `used` are not forgotten: a holder of such a name could not be fenced by a restarted count.

        A bump with reservations counts as active until they expire: so no later epoch is smaller than a reserved one.
        """
        heard = [*self._last.values(), *(recent[-1] for recent in self._recent.values())]
        alive = {row.producer_id for row in heard if row.heard_ms >= before_ms}.union(used)
        self._last = {name: row for name, row in self._last.items() if name in alive}
        self._opened = {name: epoch for name, epoch in self._opened.items() if name in alive}
        self._passed = {name: epoch for name, epoch in self._passed.items() if name in alive}
        lasting = {row.key for row in self._last.values()}
        self._recent = {
            key: recent for key, recent in self._recent.items() if recent[-1].heard_ms >= before_ms or key in lasting
        }

    def _bump_of(self, producer_id: str) -> ProducerRow | None:
        bumps = self._recent.get((producer_id, ""))
        return None if bumps is None else bumps[-1]

    def _undo_of(self, key: tuple[str, str]) -> Undo:
        return key, self._recent.get(key), self._last.get(key[0]), self._opened.get(key[0])

    def _most_epoch(self, current: int) -> int:
        """The highest epoch that a request may bring; a higher one must be assigned by a bump."""
        return self._most_first if current < 0 else current + 1

    def _of_epoch(self, topic_id: str, stamp: ProducerStamp) -> tuple[ProducerRow, ...]:
        recent = self._recent.get((stamp.producer_id, topic_id), ())
        return recent if recent and recent[-1].epoch == stamp.epoch else ()


def is_later(epoch: int, other: int) -> bool:
    """True if `epoch` was opened after the other, even if the count restarted in between; −1 is none."""
    return epoch >= 0 and (other < 0 or 0 < (epoch - other) % 2**31 < 2**30)


def _expected(recent: tuple[ProducerRow, ...]) -> int:
    return recent[-1].next_sequence if recent else 0


def survivors(rows: list[ProducerRow], silent_since_ms: int | None = None) -> list[ProducerRow]:
    """The rows, in order, that would still be remembered after a replay of all."""
    by_key: dict[tuple[str, str], list[ProducerRow]] = {}
    for row in rows:
        by_key.setdefault((row.producer_id, row.topic_id), []).append(row)
    kept = {id(row) for several in by_key.values() for row in _newest(several)}
    left = [row for row in rows if id(row) in kept]
    if silent_since_ms is None:
        return left
    producers = Producers()
    for row in left:
        producers.replay(row)
    producers.expire(silent_since_ms)
    kept = {id(row) for row in producers.rows()}
    return [row for row in left if id(row) in kept]


def _newest(rows: list[ProducerRow]) -> list[ProducerRow]:
    """The last row of a producer and topic, and the unbroken run of rows before it."""
    found = rows[-1:]
    for row in reversed(rows[-REMEMBERED:-1]):
        if not _goes_on(row, found[-1]):
            break
        found.append(row)
    return found


def _goes_on(before: ProducerRow, after: ProducerRow) -> bool:
    return before.epoch == after.epoch and before.next_sequence <= after.sequence
