"""Reading by offset: where to look, and how much of it to give. The deciding part is pure.

    table files                         tail (memory, or the journal)
    |----------------------------------|=====================|
    log start                     tail.first             end offset

At the end a reader waits; outside log start … end offset is an error that names the range. A hole, where records
were compacted away or lost, is stepped over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from delta_log.actions import LATEST_MS
from delta_log.errors import Corruption, OffsetOutOfRange, TopicClosed
from delta_log.live import Live
from delta_log.parquet import ROW_GROUP, read_row_groups
from delta_log.schema import RECORD_COLUMNS
from delta_log.snapshot import files_from
from delta_log.tail import Chunk, PayloadReader, Tail, load_batches
from delta_log.types import DataFile, Header

_ROW_BYTES: Final = 24
_RETRIES: Final = 5
NO_LIMIT: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Of one fetch. At least one record comes, however small they are, but none from offset `below` on."""

    records: int = NO_LIMIT
    bytes: int = NO_LIMIT
    below: int = NO_LIMIT


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    """One record as a reader is given it."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records in offset order. `next_offset` is where to go on, also behind a hole."""

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

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches, schema=self.schema)

    def records(self) -> Iterator[ConsumedRecord]:
        """One by one, for those who want Python objects."""
        for batch in self.batches:
            columns = (batch.column(name).to_pylist() for name in RECORD_COLUMNS[2:])
            stamps = pc.divide(batch.column("timestamp").cast(pa.int64()), 1000).to_pylist()
            for offset, stamp, key, value, headers in zip(
                batch.column("offset").to_pylist(), stamps, *columns, strict=True
            ):
                pairs = tuple((header["key"], header["value"]) for header in headers or ())
                yield ConsumedRecord(self.partition, offset, stamp, key, value, pairs)


def check_range(live: Live, partition: int, offset: int, start: int, end: int) -> None:
    if not start <= offset <= end:
        raise OffsetOutOfRange(live.name, partition, offset, start, end)


class Reader:
    """Reads for everybody; keeps nothing between two calls. `follow` brings a table up to what others committed."""

    def __init__(self, journal: PayloadReader, follow: Callable[[Live], None]) -> None:
        self._journal = journal
        self._follow = follow

    def fetch(
        self, live: Live, partition: int, offset: int, limits: FetchLimits, columns: Sequence[str] = RECORD_COLUMNS
    ) -> Fetched:
        tail = live.tails[partition]
        start, end = tail.start, tail.end
        check_range(live, partition, offset, start, end)
        schema = pa.schema([live.rows.schema.field(name) for name in columns])
        gathered = _Gathered(offset, limits)
        stop = min(end, limits.below)
        moved = 0
        while not gathered.batches and gathered.next_offset < stop:
            try:
                if gathered.next_offset >= tail.first:
                    self._from_tail(tail, gathered, stop, columns)
                else:
                    self._from_files(live, partition, gathered, min(stop, tail.first), columns)
            except TopicClosed:
                if not gathered.batches:
                    raise
            except _Moved:
                moved += 1
                if moved > _RETRIES:
                    raise TopicClosed(live.name, "its files move faster than they can be read", "try again") from None
        return Fetched(live.name, partition, gathered.batches, gathered.next_offset, end, start, schema)

    def first_at(self, live: Live, partition: int, timestamp_ms: int) -> int | None:
        """The earliest offset whose timestamp is at or after `timestamp_ms`; None when there is none."""
        if timestamp_ms > LATEST_MS:
            return None
        for _ in range(_RETRIES):
            try:
                return self._first_at(live, partition, max(0, timestamp_ms))
            except _Moved:
                continue
        raise TopicClosed(live.name, "its files move faster than they can be read", "try again")

    def _first_at(self, live: Live, partition: int, timestamp_ms: int) -> int | None:
        tail = live.tails[partition]
        start, end = tail.start, tail.end
        wanted = pa.scalar(timestamp_ms * 1000, pa.int64())
        first = tail.first
        for file in files_from(live.table.snapshot.files(partition), start):
            if file.max_timestamp_ms < timestamp_ms or file.base_offset >= first:
                continue
            for part in self._row_groups(live, file, start, end, ("offset", "timestamp")):
                found = _first_at(part, wanted, start)
                if found is not None:
                    return found
        chunks = tail.chunks_from(max(start, first), NO_LIMIT)
        if tail.first > first:
            raise _Moved
        for chunk in chunks:
            for batch in self._load([chunk]):
                found = _first_at(batch, wanted, start)
                if found is not None:
                    return found
        return None

    def _from_tail(self, tail: Tail, gathered: _Gathered, end: int, columns: Sequence[str]) -> None:
        offset = gathered.next_offset
        wanted = min(gathered.limits.records, end - offset)
        chunks = tail.chunks_from(offset, wanted)
        if not chunks or chunks[0].base_offset > offset:
            if not chunks and tail.first <= offset:
                gathered.next_offset = end
            elif chunks and tail.first <= offset:
                gathered.next_offset = chunks[0].base_offset
            return
        taken: list[Chunk] = []
        size = 0
        for chunk in chunks:
            if taken and size > gathered.limits.bytes:
                break
            taken.append(chunk)
            size += chunk.size
        for batch in self._load(taken):
            gathered.take(batch.select(list(columns)) if columns != batch.schema.names else batch, end)
        if not gathered.full:
            gathered.next_offset = max(gathered.next_offset, min(end, taken[-1].next_offset))

    def _load(self, chunks: Sequence[Chunk]) -> list[pa.RecordBatch]:
        """The rows of chunks; moved where they reached the table, and left the journal, a moment ago."""
        try:
            return load_batches(chunks, self._journal)
        except FileNotFoundError as error:
            raise _Moved from error

    def _from_files(self, live: Live, partition: int, gathered: _Gathered, end: int, columns: Sequence[str]) -> None:
        files = files_from(live.table.snapshot.files(partition), gathered.next_offset)
        for file in files:
            if file.base_offset >= end:
                break
            for part in self._row_groups(live, file, gathered.next_offset, end, columns, gathered.wanted_rows):
                for batch in part.to_batches():
                    gathered.take(batch, end)
                if gathered.full:
                    return
            gathered.next_offset = max(gathered.next_offset, min(end, file.next_offset))
            if gathered.full:
                return
        gathered.next_offset = end

    def _row_groups(
        self, live: Live, file: DataFile, low: int, high: int, columns: Sequence[str], rows: int = NO_LIMIT
    ) -> Iterator[pa.Table]:
        path = live.table.path(file.path)
        try:
            yield from read_row_groups(
                live.table.store, path, columns, low=low, high=high, order=live.rows.order, rows=rows
            )
        except FileNotFoundError as error:
            self._follow(live)
            if live.table.snapshot.has_file(file.path):
                raise _damaged(live, file, Corruption(path, "it is missing")) from error
            raise _Moved from error
        except Corruption as error:
            raise _damaged(live, file, error) from error


class _Moved(Exception):
    """The file left the table while it was being read: look where its rows are now."""


class _Gathered:
    """What a fetch has so far."""

    def __init__(self, offset: int, limits: FetchLimits) -> None:
        self.next_offset = offset
        self.limits = limits
        self.batches: list[pa.RecordBatch] = []
        self.full = False
        self._rows = 0
        self._bytes = 0

    @property
    def wanted_rows(self) -> int:
        """How many rows to read at once: all that may be given, where it is known, else a little."""
        by_bytes = NO_LIMIT if self.limits.bytes >= NO_LIMIT else max(ROW_GROUP, self.limits.bytes // 256)
        return max(1, min(self.limits.records - self._rows, by_bytes))

    def take(self, batch: pa.RecordBatch, end: int) -> None:
        """As much of a batch as is wanted: from the next offset on, below `end`, within the limits."""
        if self.full or not batch.num_rows:
            return
        batch = _between(batch, self.next_offset, end)
        if not batch.num_rows:
            return
        kept = min(int(batch.num_rows), self.limits.records - self._rows)
        kept = max(kept, 0 if self._rows else 1)
        if self._bytes + batch.nbytes > self.limits.bytes:
            kept = min(kept, max(0 if self._rows else 1, _fitting(batch, self.limits.bytes - self._bytes)))
        if kept < batch.num_rows:
            batch, self.full = batch.slice(0, kept), True
        if kept:
            self.batches.append(batch)
            self._rows += int(kept)
            self._bytes += int(batch.nbytes)
            self.next_offset = int(batch.column(0)[-1].as_py()) + 1
        self.full = self.full or self._rows >= self.limits.records or self._bytes >= self.limits.bytes


def _between(batch: pa.RecordBatch, low: int, high: int) -> pa.RecordBatch:
    offsets = batch.column(0)
    first, last = offsets[0].as_py(), offsets[-1].as_py()
    if first >= low and last < high:
        return batch
    if last - first + 1 == batch.num_rows:
        start = min(max(0, low - first), batch.num_rows)
        return batch.slice(start, max(0, min(high, last + 1) - first - start))
    return batch.filter(pc.and_(pc.greater_equal(offsets, low), pc.less(offsets, high)))


def _fitting(batch: pa.RecordBatch, room: int) -> int:
    """How many rows from the start fit into `room` bytes."""
    sizes = pa.repeat(pa.scalar(_ROW_BYTES, pa.int64()), batch.num_rows)
    for name in ("key", "value"):
        if name in batch.schema.names:
            sizes = pc.add(sizes, _lengths(batch.column(name)))
    if "headers" in batch.schema.names:
        sizes = pc.add(sizes, _header_sizes(batch.column("headers")))
    return int(pc.sum(pc.less_equal(pc.cumulative_sum(sizes), room)).as_py() or 0)


def _lengths(column: pa.Array) -> pa.Array:
    return pc.fill_null(pc.binary_length(column), 0).cast(pa.int64())


def _header_sizes(column: pa.Array) -> pa.Array:
    """What the headers of each row take: the running sum over all headers, from row to row."""
    flat = column.flatten()
    each = pc.add(pc.add(_lengths(flat.field("key")), _lengths(flat.field("value"))), _ROW_BYTES)
    sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(each)])
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64()))
    starts = pc.subtract(ends, pc.fill_null(pc.list_value_length(column), 0).cast(pa.int64()))
    return pc.subtract(sums.take(ends), sums.take(starts))


def _first_at(rows: pa.RecordBatch | pa.Table, wanted: pa.Scalar, start: int) -> int | None:
    late = pc.and_(
        pc.greater_equal(rows.column("timestamp").cast(pa.int64()), wanted),
        pc.greater_equal(rows.column("offset"), start),
    )
    at = pc.index(late, True).as_py()
    return None if at < 0 else rows.column("offset")[at].as_py()


def _damaged(live: Live, file: DataFile, error: Corruption) -> TopicClosed:
    where = f"partition {file.partition}, offsets {file.base_offset} to {file.last_offset}"
    return TopicClosed(live.name, f"{where}: {error}", "see what `lakelog repair` would do")
