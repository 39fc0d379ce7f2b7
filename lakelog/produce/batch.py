"""Batches of records with the result of each, and the units of a batch that are sent as one request. Pure.

A batch keeps the results of all its records; the futures that callers hold only refer to it, so that one answer
resolves a thousand of them at once. It is settled when the last result is known, and never changes after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from lakelog.foundation.errors import LakelogError
from lakelog.produce.rows import Row, encode_rows


class RecordMetadata(NamedTuple):
    """Position of a stored record. None means unknown: with `acks=0`, or for a retry that the server has forgotten.

    `timestamp` is the one passed to `send`; without one the record has the server's time of the append.
    """

    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None


class Place(msgspec.Struct, gc=False):
    """Partition and offset of one record, as the server returns them."""

    partition: int | None = None
    offset: int | None = None


NOWHERE: Final = Place()


class Batch:
    """Records of one topic with their results. Drivers extend it with their way to notify callers.

    `number` counts the batches of a producer; `born` is the time of the first record.
    """

    __slots__ = ("_errors", "_places", "_times", "born", "full", "left", "number", "rows", "settled", "size", "topic")

    def __init__(self, topic: str, number: int, born: float) -> None:
        self.topic = topic
        self.number = number
        self.born = born
        self.rows: list[Row] = []
        self.size = 0
        self.full = False
        self.left = 0
        self.settled = False
        self._places: Sequence[Place] = ()
        self._errors: dict[int, LakelogError] = {}
        self._times: dict[int, int] = {}

    def begin(self) -> None:
        """Close the batch: no more records are added."""
        self.left = len(self.rows)

    def store(self, indexes: Sequence[int], places: Sequence[Place]) -> None:
        """Set the server's results for the records at these indexes."""
        self.left -= len(indexes)
        if not self.rows or len(indexes) == len(self.rows):
            self._places = places
            return
        known = list(self._places) or [NOWHERE] * len(self.rows)
        for index, place in zip(indexes, places, strict=True):
            known[index] = place
        self._places = known

    def fail(self, indexes: Sequence[int], error: LakelogError) -> None:
        self.left -= len(indexes)
        self._errors.update(dict.fromkeys(indexes, error))

    def settle(self) -> None:
        """Mark all results as known, and free the records: a future may be kept much longer."""
        self.put_away()
        self.settled = True

    def put_away(self) -> None:
        """Free the records and keep their timestamps: only the results are still needed."""
        if not self.rows:
            return
        self._times = {index: row.timestamp for index, row in enumerate(self.rows) if row.timestamp is not None}
        self.rows = []

    def error(self, index: int) -> LakelogError | None:
        """Error of a record of a settled batch, without building its metadata."""
        return self._errors.get(index) if self._errors else None

    def outcome(self, index: int) -> RecordMetadata | LakelogError:
        """Result of a record of a settled batch."""
        if self._errors and index in self._errors:
            return self._errors[index]
        place = self._places[index]
        return RecordMetadata(self.topic, place.partition, place.offset, self._times.get(index))


class Fate(Enum):
    """Final state of a unit, as it matters to the units behind it."""

    STORED = auto()
    #: Certainly not stored, now or later: its sequence numbers stay missing.
    HOLE = auto()
    #: Unknown whether it was stored.
    DOUBT = auto()


class Stamp(NamedTuple):
    """Producer id and epoch of a request, and the sequence of its first record."""

    producer_id: str
    epoch: int
    sequence: int


class Payload:
    """Rows that are sent as one body, encoded once: the first attempt fills `encoded`."""

    __slots__ = ("encoded", "rows")

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.encoded: bytes | None = None

    def encode(self) -> bytes:
        return encode_rows(self.rows)


class Unit:
    """Records of one batch that are stored all or none: the whole batch, or what is left of it after refusals.

    `attempt` identifies the last attempt; the answer to an earlier one is ignored. `doubtful`: an attempt may have
    been stored.
    """

    __slots__ = (
        "attempt", "batch", "doubtful", "failures", "fate", "in_flight", "indexes", "last", "payload", "ready_at",
        "refusals", "stamp",
    )  # fmt: skip

    def __init__(self, batch: Batch, indexes: Sequence[int], refusals: int = 0) -> None:
        self.batch = batch
        self.indexes = indexes
        self.payload = Payload(self._rows())
        self.stamp: Stamp | None = None
        self.attempt = 0
        self.in_flight = False
        self.doubtful = False
        self.failures = 0
        self.refusals = refusals
        self.ready_at = 0.0
        self.last: LakelogError | None = None
        self.fate: Fate | None = None

    def keep(self, indexes: Sequence[int]) -> None:
        """Continue with these records alone, as a unit that was never sent."""
        self.indexes = indexes
        self.payload = Payload(self._rows())
        self.refusals += 1
        self.renumber()

    def renumber(self) -> None:
        """Drop the sequence number, to get a new one: no attempt under the old one can be stored any more."""
        self.attempt += 1
        self.in_flight = self.doubtful = False
        self.stamp = None

    def split(self) -> tuple[Unit, Unit]:
        """Split into two halves, in order."""
        middle = len(self.indexes) // 2
        halves = (self.indexes[:middle], self.indexes[middle:])
        first, second = (Unit(self.batch, half, self.refusals + 1) for half in halves)
        return first, second

    def _rows(self) -> list[Row]:
        rows = self.batch.rows
        return rows if len(self.indexes) == len(rows) else [rows[index] for index in self.indexes]
