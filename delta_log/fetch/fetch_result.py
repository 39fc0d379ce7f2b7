"""The result of a fetch: cuts the rows that were found to the limits, and shapes them. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_log.model.schema import RECORD_COLUMNS, integer
from delta_log.model.types import Header

_ROW_BYTES: Final = 24
NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Limits of one fetch. At least one record is returned however small they are, but none at or above `below`."""

    records: int = NO_LIMIT
    bytes: int = NO_LIMIT
    below: int = NO_LIMIT


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """A record as a reader receives it."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records in offset order. The next fetch starts at `next_offset`, which may lie behind a hole."""

    topic: str
    partition: int
    batches: list[pa.RecordBatch]
    next_offset: int
    end_offset: int
    log_start_offset: int
    schema: pa.Schema = field(repr=False)

    @property
    def count(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    @property
    def size(self) -> int:
        """Memory size of the records."""
        return sum(int(batch.nbytes) for batch in self.batches)

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches, schema=self.schema)

    def records(self) -> Iterator[ConsumedRecord]:
        """Iterate over the records as Python objects."""
        for batch in self.batches:
            columns = (batch.column(name).to_pylist() for name in RECORD_COLUMNS[2:])
            stamps = pc.divide(batch.column("timestamp").cast(pa.int64()), integer(1000)).to_pylist()
            for offset, stamp, key, value, headers in zip(
                batch.column("offset").to_pylist(), stamps, *columns, strict=True
            ):
                pairs = tuple((header["key"], header["value"]) for header in headers or ())
                yield ConsumedRecord(self.partition, offset, stamp, key, value, pairs)


class Gathered:
    """The intermediate result of a fetch under way."""

    def __init__(self, offset: int, limits: FetchLimits) -> None:
        self.next_offset = offset
        self.limits = limits
        self.batches: list[pa.RecordBatch] = []
        self.full = False
        self._rows = 0
        self._bytes = 0

    @property
    def is_empty(self) -> bool:
        return not self._rows

    @property
    def room(self) -> FetchLimits:
        """The remaining limits: no more than that is read at once."""
        return FetchLimits(max(1, self.limits.records - self._rows), max(1, self.limits.bytes - self._bytes))

    def promise(self, rows: int, size: int, next_offset: int) -> None:
        """Count rows that are delivered later, after the present ones. The caller has checked the limits."""
        self._rows += rows
        self._bytes += size
        self.next_offset = next_offset

    def take(self, batch: pa.RecordBatch, end: int) -> None:
        """Append the wanted part of a batch: from the next offset on, below `end`, within the limits."""
        if self.full or not batch.num_rows:
            return
        batch = between(batch, self.next_offset, end)
        if not batch.num_rows:
            return
        kept = min(int(batch.num_rows), self.limits.records - self._rows)
        kept = max(kept, 0 if self._rows else 1)
        if self._bytes + batch.nbytes > self.limits.bytes:
            kept = min(kept, max(0 if self._rows else 1, fitting(batch, self.limits.bytes - self._bytes)))
        if kept < batch.num_rows:
            batch, self.full = batch.slice(0, kept), True
        if kept:
            self.batches.append(batch)
            self._rows += int(kept)
            self._bytes += int(batch.nbytes)
            self.next_offset = int(batch.column(0)[-1].as_py()) + 1
        self.full = self.full or self._rows >= self.limits.records or self._bytes >= self.limits.bytes


def between(batch: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
    offsets = batch.column(0)
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    if first >= low and last < high:
        return batch
    if last - first + 1 == batch.num_rows:
        start = min(max(0, low - first), batch.num_rows)
        return batch.slice(start, max(0, min(high, last + 1) - first - start))
    return batch.filter(pc.and_(pc.greater_equal(offsets, integer(low)), pc.less(offsets, integer(high))))


def fitting(batch: pa.RecordBatch, room: int) -> int:
    """Number of rows from the start that fit into `room` bytes."""
    columns = [_bytes_of(batch.column(name)) for name in ("key", "value") if name in batch.schema.names]
    if "headers" in batch.schema.names and len(batch.column("headers").values):
        columns.append(_bytes_of_headers(batch.column("headers")))

    def size(rows: int) -> int:
        return _ROW_BYTES * rows + sum(column(rows) for column in columns)

    return bisect_right(range(1, batch.num_rows + 1), room, key=size)


def _bytes_of(column: pa.Array) -> Callable[[int], int]:
    """Size of the first n rows, as a function: taken from Arrow's offset buffer, without reading any row."""
    starts = _starts(column)
    first = int(starts[0])
    return lambda rows: int(starts[rows]) - first


def _bytes_of_headers(column: pa.Array) -> Callable[[int], int]:
    starts = _starts(column)
    keys, values = (_starts(column.values.field(name)) for name in ("key", "value"))

    def size(rows: int) -> int:
        first, last = int(starts[0]), int(starts[rows])
        taken = int(keys[last]) - int(keys[first]) + int(values[last]) - int(values[first])
        return _ROW_BYTES * (last - first) + taken

    return size


def _starts(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Start of each row's bytes or elements, and the end of the last row's."""
    return np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset)


def first_at_or_after(rows: pa.RecordBatch | pa.Table, wanted: pa.Scalar, start: int) -> int | None:
    late = pc.and_(
        pc.greater_equal(rows.column("timestamp").cast(pa.int64()), wanted),
        pc.greater_equal(rows.column("offset"), integer(start)),
    )
    at = pc.index(late, True).as_py()
    return None if at < 0 else rows.column("offset")[at].as_py()
