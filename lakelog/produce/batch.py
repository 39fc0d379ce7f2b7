"""Records that were sent together, what became of each, and what of them is under way as one request. Pure.

A batch keeps the results of all of its records; the futures that callers hold only look at it, so that an answer
resolves a thousand of them at once. It is settled when the last one is known, and never changes after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from lakelog.foundation.errors import LakelogError
from lakelog.produce.rows import Row, encode_rows


class RecordMetadata(NamedTuple):
    """Where a record is. None is what is not known: with `acks=0`, and of a repeat that the server remembers no more.

    `timestamp` is the one that was given to `send`; without one the server's clock at the append counts.
    """

    topic: str
    partition: int | None
    offset: int | None
    timestamp: int | None


class Place(msgspec.Struct, gc=False):
    """Of one record, as the server answers it."""

    partition: int | None = None
    offset: int | None = None


NOWHERE: Final = Place()


class Batch:
    """`number` counts the batches of a producer, `born` is when the first record came. Its drivers add how to tell."""

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
        """No record is added any more."""
        self.left = len(self.rows)

    def store(self, indexes: Sequence[int], places: Sequence[Place]) -> None:
        """What the server answered for the records of these indexes."""
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
        """The records themselves are needed no more, however long somebody keeps a future."""
        self.put_away()
        self.settled = True

    def put_away(self) -> None:
        """Who has them now needs them no more: what remains is to be told what became of all of them together."""
        if not self.rows:
            return
        self._times = {index: row.timestamp for index, row in enumerate(self.rows) if row.timestamp is not None}
        self.rows = []

    def error(self, index: int) -> LakelogError | None:
        """Of a settled batch, for who does not ask where it is."""
        return self._errors.get(index) if self._errors else None

    def outcome(self, index: int) -> RecordMetadata | LakelogError:
        """Of a settled batch."""
        if self._errors and index in self._errors:
            return self._errors[index]
        place = self._places[index]
        return RecordMetadata(self.topic, place.partition, place.offset, self._times.get(index))


class Fate(Enum):
    """What became of a unit, for the units behind it."""

    STORED = auto()
    #: Surely not stored, and it never will be: its numbers are missing for ever.
    HOLE = auto()
    #: Nobody knows.
    DOUBT = auto()


class Stamp(NamedTuple):
    """Who sends a request, and the sequence of its first record."""

    producer_id: str
    epoch: int
    sequence: int


class Payload:
    """Rows that are sent as one body, encoded once. `encoded` is filled by whoever sends first."""

    __slots__ = ("encoded", "rows")

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self.encoded: bytes | None = None

    def encode(self) -> bytes:
        return encode_rows(self.rows)


class Unit:
    """Records of one batch that are stored together or not at all: all of them, or what refusals left.

    `attempt` counts how often it was sent; an answer to another attempt than the last one is nobody's. `doubtful`:
    an attempt may have been stored.
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
        """Go on with these records alone, as something that was never sent."""
        self.indexes = indexes
        self.payload = Payload(self._rows())
        self.refusals += 1
        self.renumber()

    def renumber(self) -> None:
        """Nothing that was sent under the old number can be stored any more; it needs a new one."""
        self.attempt += 1
        self.in_flight = self.doubtful = False
        self.stamp = None

    def split(self) -> tuple[Unit, Unit]:
        """Two halves, in order."""
        middle = len(self.indexes) // 2
        halves = (self.indexes[:middle], self.indexes[middle:])
        first, second = (Unit(self.batch, half, self.refusals + 1) for half in halves)
        return first, second

    def _rows(self) -> list[Row]:
        rows = self.batch.rows
        return rows if len(self.indexes) == len(rows) else [rows[index] for index in self.indexes]
