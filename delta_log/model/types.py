"""Basic types of the log: small frozen values without behaviour of their own.

An offset identifies a record of a partition for ever. `next_offset` is where to continue, `last_offset` the last one
present: a bare "offset" never means both. Timestamps of records are milliseconds since 1970 as in Kafka; tables
hold microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple

import msgspec

Header = tuple[str, bytes | None]


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record as a producer sends it. A null key or value is not an empty one."""

    value: bytes | None = None
    key: bytes | None = None
    timestamp: int | None = None
    headers: tuple[Header, ...] | None = None
    partition: int | None = None


class OffsetRange(msgspec.Struct, frozen=True, gc=False):
    """A dense run of offsets, assigned to one request in one partition."""

    partition: int
    base_offset: int
    count: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.count

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.count - 1


class ProducerStamp(msgspec.Struct, frozen=True, gc=False):
    """Producer and epoch of an idempotent request, and the sequence of its first record."""

    producer_id: str
    epoch: int
    sequence: int


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """Identity that an idempotent producer puts on its requests; sequences begin at 0 in each topic."""

    producer_id: str
    epoch: int


class Appended(msgspec.Struct, frozen=True, gc=False):
    """The answer to a durable request.

    `ranges` has one entry per touched partition, in order of partition; it is empty for a duplicate so old that its
    offsets are no longer known. `partitions` has the partition of each record of the request; for a duplicate it is
    empty if the topic's partitioner was changed since.
    """

    ranges: tuple[OffsetRange, ...]
    partitions: tuple[int, ...] = ()
    timestamp: int = 0
    duplicate: bool = False

    def offsets(self) -> list[int]:
        """The offset of each record of the request, in the request's order; empty if unknown."""
        if len(self.ranges) == 1:
            only = self.ranges[0]
            return list(range(only.base_offset, only.base_offset + only.count))
        following = {given.partition: count(given.base_offset) for given in self.ranges}
        return list(map(next, map(following.__getitem__, self.partitions)))


@dataclass(frozen=True, slots=True)
class DataFile:
    """A live parquet file of one partition, as the table's log describes it.

    Offsets inside are strictly increasing but, after a key compaction, not dense. `modified_ms` is the commit time
    of its oldest content.
    """

    path: str
    partition: int
    base_offset: int
    last_offset: int
    count: int
    size: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    modified_ms: int

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1


class RowGroup(NamedTuple):
    """A row group's entry in a footer: first and last row by their order, and its size in bytes, decoded."""

    number: int
    first: int
    last: int
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """The readable offsets of a partition: [log_start_offset, end_offset)."""

    log_start_offset: int
    end_offset: int


#: The last millisecond that a timestamp's text can represent: the end of the year 9999.
LATEST_MS: Final = 253_402_300_799_999
