"""Reading by offset: finds the source of the rows and applies the fetch limits.

    table files                         tail (memory, or the journal)
    |----------------------------------|=====================|
    log start                     tail.first             end offset

One fetch crosses the border, so that a reader from the log start also gets the newest records. At the end a reader
waits; an offset outside log start … end offset is an error that names the range. A hole, where records were compacted
away or lost, is skipped. An unreadable place is an error only for a fetch that begins there: a fetch that reaches it
later returns the records before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from delta_log.delta.snapshot import files_from
from delta_log.fetch.deferred_rows import DeferredRows, PartialFetch
from delta_log.fetch.fetch_result import NO_LIMIT, Fetched, FetchLimits, Gathered, first_at_or_after
from delta_log.fetch.file_fetch import FileReads, Moved, Wanted
from delta_log.model.errors import LakelogError, OffsetOutOfRange, TopicClosed
from delta_log.model.schema import RECORD_COLUMNS
from delta_log.model.types import LATEST_MS
from delta_log.topics.partition_state import Chunk, PartitionState, PayloadReader, load_batches
from delta_log.topics.topic_state import TopicState

_RETRIES: Final = 5


def check_range(live: TopicState, partition: int, offset: int, start: int, end: int) -> None:
    if not start <= offset <= end:
        raise OffsetOutOfRange(live.name, partition, offset, start, end)


def _may_go_on(gathered: Gathered, later: DeferredRows | None) -> bool:
    """Check that more may be gathered: nothing may follow rows that are only promised."""
    return not gathered.full and (later is None or not later.rows)


class Reader:
    """Reads topics for all callers. `follow` updates a table to the commits of other processes."""

    def __init__(self, journal: PayloadReader, follow: Callable[[TopicState], None]) -> None:
        self._journal = journal
        self._follow = follow
        self._files = FileReads(follow)

    def fetch(
        self,
        live: TopicState,
        partition: int,
        offset: int,
        limits: FetchLimits,
        columns: Sequence[str] = RECORD_COLUMNS,
    ) -> Fetched:
        return self._gather(live, partition, Gathered(offset, limits), columns, None)

    def begin(
        self,
        live: TopicState,
        partition: int,
        offset: int,
        limits: FetchLimits,
        columns: Sequence[str] = RECORD_COLUMNS,
    ) -> PartialFetch:
        """Fetch like `fetch`, but promise rows of large files where possible instead of decoding them."""
        later = self._files.open_later(columns)
        try:
            return PartialFetch(self._gather(live, partition, Gathered(offset, limits), columns, later), later)
        except BaseException:
            later.close()
            raise

    def _gather(
        self, live: TopicState, partition: int, gathered: Gathered, columns: Sequence[str], later: DeferredRows | None
    ) -> Fetched:
        tail = live.tails[partition]
        start, end = tail.log_start_offset, tail.high_watermark
        check_range(live, partition, gathered.next_offset, start, end)
        schema = pa.schema([live.rows.schema.field(name) for name in columns])
        stop = min(end, gathered.limits.below)
        moved = 0
        while gathered.next_offset < stop and _may_go_on(gathered, later):
            try:
                if gathered.next_offset >= tail.first:
                    self._from_tail(tail, gathered, stop, columns)
                else:
                    self._files.gather(Wanted(live, partition, min(stop, tail.first), columns), gathered, later)
            except Moved:
                moved += 1
                if moved <= _RETRIES:
                    continue
                if gathered.is_empty:
                    raise TopicClosed(live.name, "its files move faster than they can be read", "try again") from None
                break
            except (LakelogError, OSError):
                if gathered.is_empty:
                    raise
                break
        return Fetched(live.name, partition, gathered.batches, gathered.next_offset, end, start, schema)

    def first_at(self, live: TopicState, partition: int, timestamp_ms: int) -> int | None:
        """The earliest offset whose timestamp is at or after `timestamp_ms`; None when there is none."""
        if timestamp_ms > LATEST_MS:
            return None
        for _ in range(_RETRIES):
            try:
                return self._first_at(live, partition, max(0, timestamp_ms))
            except Moved:
                continue
        raise TopicClosed(live.name, "its files move faster than they can be read", "try again")

    def _first_at(self, live: TopicState, partition: int, timestamp_ms: int) -> int | None:
        tail = live.tails[partition]
        start, end = tail.log_start_offset, tail.high_watermark
        wanted = pa.scalar(timestamp_ms * 1000, pa.int64())
        first = tail.first
        for file in files_from(live.table.snapshot.files(partition), start):
            if file.max_timestamp_ms < timestamp_ms or file.base_offset >= first:
                continue
            for part in self._files.row_groups(live, file, start, end, ("offset", "timestamp"), FetchLimits()):
                found = first_at_or_after(part, wanted, start)
                if found is not None:
                    return found
        chunks = tail.chunks_from(max(start, first), NO_LIMIT)
        if tail.first > first:
            raise Moved
        for chunk in chunks:
            for batch in self._load([chunk]):
                found = first_at_or_after(batch, wanted, start)
                if found is not None:
                    return found
        return None

    def _from_tail(self, tail: PartitionState, gathered: Gathered, end: int, columns: Sequence[str]) -> None:
        offset = gathered.next_offset
        room = gathered.room
        wanted = min(room.records, end - offset)
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
            if taken and size > room.bytes:
                break
            taken.append(chunk)
            size += chunk.size
        for batch in self._load(taken):
            gathered.take(batch.select(list(columns)) if columns != batch.schema.names else batch, end)
        if not gathered.full:
            gathered.next_offset = max(gathered.next_offset, min(end, taken[-1].next_offset))

    def _load(self, chunks: Sequence[Chunk]) -> list[pa.RecordBatch]:
        """Load the rows of chunks; Moved if they have just reached the table and left the journal."""
        try:
            return load_batches(chunks, self._journal)
        except FileNotFoundError as error:
            raise Moved from error
