"""Reading a table's files for fetches: rows are decoded now, or promised and decoded on demand.

Knows files and the rows that earlier fetches decoded and left; nothing of the rows that are not in the table yet.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from delta_log.delta.parquet import read_row_groups
from delta_log.delta.snapshot import files_from
from delta_log.fetch.deferred_plan import Promise, plan_later
from delta_log.fetch.deferred_rows import DeferredRows, OpenFileLimit
from delta_log.fetch.fetch_result import NO_LIMIT, FetchLimits, Gathered, between
from delta_log.fetch.row_cache import Leftover, RowCache
from delta_log.model.errors import Corruption, TopicClosed
from delta_log.model.schema import ROW_GROUP
from delta_log.model.types import DataFile
from delta_log.topics.topic_state import TopicState

_LEFTOVER_BYTES: Final = 64 * 1024 * 1024
#: For smaller files or smaller limits a promise does not pay off.
_WORTH_FILE: Final = 64 * 1024
_WORTH_ROOM: Final = 2 * 1024 * 1024
#: Open files for all responses under way. Beyond that, a response is decoded at once.
_MOST_FILES: Final = 128
_ONE_GROUP: Final = FetchLimits(1, 1)


class Moved(Exception):
    """The rows moved while they were being read: look for their new place."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The target of a fetch: one partition, below `end`."""

    live: TopicState
    partition: int
    end: int
    columns: Sequence[str]

    def place(self, offset: int) -> tuple[object, ...]:
        """The cache key of leftover rows from an offset on."""
        return (self.live.id, self.partition, offset, *self.columns)


class FileReads:
    """Reads files for fetches. Thread-safe. `follow` updates a table to the commits of other processes."""

    def __init__(self, follow: Callable[[TopicState], None]) -> None:
        self._follow = follow
        self._leftovers = RowCache(_LEFTOVER_BYTES)
        self._room = OpenFileLimit(_MOST_FILES)
        self._damaged: set[str] = set()

    def open_later(self, columns: Sequence[str]) -> DeferredRows:
        """An empty list of promises for one fetch."""
        return DeferredRows(columns, self._room)

    def gather(self, wanted: Wanted, gathered: Gathered, later: DeferredRows | None) -> None:
        """Gather rows of the files within the limits; with `later`, promise them where that pays off."""
        live, end = wanted.live, wanted.end
        for file in files_from(live.table.snapshot.files(wanted.partition), gathered.next_offset):
            if file.base_offset >= end:
                break
            self._take_left(wanted, file, gathered)
            while not gathered.full and gathered.next_offset < min(end, file.next_offset):
                self._take_some(wanted, file, gathered, later)
            if gathered.full:
                return
        gathered.next_offset = end

    def row_groups(
        self, live: TopicState, file: DataFile, low: int, high: int, columns: Sequence[str], room: FetchLimits
    ) -> Iterator[pa.Table]:
        with self._blamed(live, file):
            yield from read_row_groups(
                live.table.store,
                live.table.path(file.path),
                columns,
                low=low,
                high=high,
                order=live.rows.order,
                rows=room.records,
                size=room.bytes,
            )

    def _take_left(self, wanted: Wanted, file: DataFile, gathered: Gathered) -> None:
        """Take the rows that an earlier fetch decoded beyond its limits."""
        left = self._leftovers.find(wanted.place(gathered.next_offset))
        if left is not None and left.path == file.path:
            self._take(wanted, file, gathered, left.batches)

    def _take_some(self, wanted: Wanted, file: DataFile, gathered: Gathered, later: DeferredRows | None) -> None:
        """Promise rows, or else decode them: up to the limits, or until a promise can be tried again."""
        worth = later is not None and (later.rows > 0 or _is_worth_it(file, gathered.room))
        if later is not None and worth and self._promise(wanted, file, gathered, later):
            return
        room = _ONE_GROUP if worth else gathered.room
        low, high = gathered.next_offset, wanted.end
        for part in self.row_groups(wanted.live, file, low, high, wanted.columns, room):
            self._take(wanted, file, gathered, part.to_batches())
            if gathered.full or (worth and gathered.next_offset > low):
                return
        gathered.next_offset = max(gathered.next_offset, min(wanted.end, file.next_offset))

    def _take(self, wanted: Wanted, file: DataFile, gathered: Gathered, batches: Sequence[pa.RecordBatch]) -> None:
        """Take decoded rows within the limits; the rest is cached for the fetch that continues here."""
        for batch in batches:
            gathered.take(batch, wanted.end)
        if not gathered.full:
            seen = [int(batch.column(0)[-1].as_py()) + 1 for batch in batches if batch.num_rows]
            gathered.next_offset = max(gathered.next_offset, min(wanted.end, max(seen, default=0)))
            return
        offset = gathered.next_offset
        cuts = [between(batch, offset, NO_LIMIT) for batch in batches if batch.num_rows]
        rest = [cut for cut in cuts if cut.num_rows]
        if rest:
            self._leftovers.keep(wanted.place(offset), Leftover(file.path, rest))

    def _promise(self, wanted: Wanted, file: DataFile, gathered: Gathered, later: DeferredRows) -> bool:
        """Promise the next rows of a file; False if they must be decoded now.

        After promises nothing is decoded: the fetch ends with them.
        """
        live, end = wanted.live, wanted.end
        promises: list[Promise] = []
        ended = True
        with self._blamed(live, file):
            opened = None
            if file.path not in self._damaged:
                opened = later.open(live.table.store, live.table.path(file.path))
            if opened is not None:
                try:
                    groups = opened.row_groups(live.rows.order, gathered.next_offset, end)
                    promises, ended = plan_later(groups, gathered.next_offset, end, gathered.room)
                finally:
                    later.add(opened, promises, lambda error: self._tell_damage(live, file, error))
        for promise in promises:
            gathered.promise(promise.rows, promise.size, promise.next_offset)
        if not ended:
            gathered.next_offset = max(gathered.next_offset, min(end, file.next_offset))
        gathered.full = ended and later.rows > 0
        return gathered.full or not ended

    def _tell_damage(self, live: TopicState, file: DataFile, error: Corruption) -> TopicClosed:
        """Stop promising a damaged file: the next fetch ends before the damage, and the one after it gets the error."""
        self._damaged.add(file.path)
        return _damaged(live, file, error)

    @contextmanager
    def _blamed(self, live: TopicState, file: DataFile) -> Generator[None]:
        """Translate errors of a file into those that a reader gets."""
        try:
            yield
        except FileNotFoundError as error:
            self._follow(live)
            if live.table.snapshot.has_file(file.path):
                raise _damaged(live, file, Corruption(live.table.path(file.path), "it is missing")) from error
            raise Moved from error
        except Corruption as error:
            raise _damaged(live, file, error) from error


def _is_worth_it(file: DataFile, room: FetchLimits) -> bool:
    return file.size >= _WORTH_FILE and room.bytes >= _WORTH_ROOM and room.records >= ROW_GROUP


def _damaged(live: TopicState, file: DataFile, error: Corruption) -> TopicClosed:
    where = f"partition {file.partition}, offsets {file.base_offset} to {file.last_offset}"
    return TopicClosed(live.name, f"{where}: {error}", "see what `lakelog repair --dry-run` would do")
