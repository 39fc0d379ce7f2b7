"""Reading by offset: where to look, and how much of it to give. The deciding part is pure.

    table files                         tail (memory, or the journal)
    |----------------------------------|=====================|
    log start                     tail.first             end offset

At the end a reader waits; outside log start … end offset is an error that names the range. A hole, where records
were compacted away or lost, is stepped over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from delta_log.actions import LATEST_MS
from delta_log.errors import Corruption, OffsetOutOfRange, TopicClosed
from delta_log.fetched import (
    NO_LIMIT,
    Fetched,
    FetchLimits,
    Gathered,
    between,
    first_at_or_after,
)
from delta_log.leftovers import Leftover, Leftovers
from delta_log.live import Live
from delta_log.parquet import read_row_groups
from delta_log.schema import RECORD_COLUMNS
from delta_log.snapshot import files_from
from delta_log.tail import Chunk, PayloadReader, Tail, load_batches
from delta_log.types import DataFile

_RETRIES: Final = 5
_LEFTOVER_BYTES: Final = 64 * 1024 * 1024


def check_range(live: Live, partition: int, offset: int, start: int, end: int) -> None:
    if not start <= offset <= end:
        raise OffsetOutOfRange(live.name, partition, offset, start, end)


class Reader:
    """Reads for everybody. `follow` brings a table up to what others committed."""

    def __init__(self, journal: PayloadReader, follow: Callable[[Live], None]) -> None:
        self._journal = journal
        self._follow = follow
        self._leftovers = Leftovers(_LEFTOVER_BYTES)

    def fetch(
        self, live: Live, partition: int, offset: int, limits: FetchLimits, columns: Sequence[str] = RECORD_COLUMNS
    ) -> Fetched:
        tail = live.tails[partition]
        start, end = tail.start, tail.end
        check_range(live, partition, offset, start, end)
        schema = pa.schema([live.rows.schema.field(name) for name in columns])
        gathered = Gathered(offset, limits)
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
            for part in self._row_groups(live, file, start, end, ("offset", "timestamp"), FetchLimits()):
                found = first_at_or_after(part, wanted, start)
                if found is not None:
                    return found
        chunks = tail.chunks_from(max(start, first), NO_LIMIT)
        if tail.first > first:
            raise _Moved
        for chunk in chunks:
            for batch in self._load([chunk]):
                found = first_at_or_after(batch, wanted, start)
                if found is not None:
                    return found
        return None

    def _from_tail(self, tail: Tail, gathered: Gathered, end: int, columns: Sequence[str]) -> None:
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

    def _from_files(self, live: Live, partition: int, gathered: Gathered, end: int, columns: Sequence[str]) -> None:
        files = files_from(live.table.snapshot.files(partition), gathered.next_offset)
        for file in files:
            if file.base_offset >= end:
                break
            for batches in self._decoded(live, partition, file, gathered, end, columns):
                for batch in batches:
                    gathered.take(batch, end)
                if gathered.full:
                    self._keep_rest(live, partition, file, gathered, batches, columns)
                    return
            gathered.next_offset = max(gathered.next_offset, min(end, file.next_offset))
            if gathered.full:
                return
        gathered.next_offset = end

    def _decoded(
        self, live: Live, partition: int, file: DataFile, gathered: Gathered, end: int, columns: Sequence[str]
    ) -> Iterator[Sequence[pa.RecordBatch]]:
        """What an earlier fetch left, and then what the file has behind it."""
        left = self._leftovers.find((live.id, partition, gathered.next_offset, *columns))
        if left is not None and left.path == file.path:
            yield left.batches
            last = int(left.batches[-1].column(0)[-1].as_py())
            gathered.next_offset = max(gathered.next_offset, min(end, last + 1))
        for part in self._row_groups(live, file, gathered.next_offset, end, columns, gathered.room):
            yield part.to_batches()

    def _keep_rest(
        self,
        live: Live,
        partition: int,
        file: DataFile,
        gathered: Gathered,
        batches: Sequence[pa.RecordBatch],
        columns: Sequence[str],
    ) -> None:
        offset = gathered.next_offset
        cuts = [between(batch, offset, NO_LIMIT) for batch in batches if batch.num_rows]
        rest = [cut for cut in cuts if cut.num_rows]
        if rest:
            self._leftovers.keep((live.id, partition, offset, *columns), Leftover(file.path, rest))

    def _row_groups(
        self, live: Live, file: DataFile, low: int, high: int, columns: Sequence[str], room: FetchLimits
    ) -> Iterator[pa.Table]:
        path = live.table.path(file.path)
        try:
            yield from read_row_groups(
                live.table.store,
                path,
                columns,
                low=low,
                high=high,
                order=live.rows.order,
                rows=room.records,
                size=room.bytes,
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


def _damaged(live: Live, file: DataFile, error: Corruption) -> TopicClosed:
    where = f"partition {file.partition}, offsets {file.base_offset} to {file.last_offset}"
    return TopicClosed(live.name, f"{where}: {error}", "see what `lakelog repair` would do")
