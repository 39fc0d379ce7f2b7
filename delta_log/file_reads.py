"""The rows of a partition's files, from an offset on: decoded once, and ahead of a reader who goes on.

A fetch of the usual size ends within a row group that had to be decoded whole. The rest is left for the next one, and
once somebody has gone on from where a fetch ended, what he will ask for next is read meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Final

import pyarrow as pa

from delta_log.errors import Corruption, LakelogError, TopicClosed
from delta_log.fetched import NO_LIMIT, FetchLimits, Gathered, between
from delta_log.leftovers import Leftover, Leftovers
from delta_log.live import Live
from delta_log.parquet import read_row_groups
from delta_log.read_ahead import ReadAhead
from delta_log.snapshot import files_from
from delta_log.types import DataFile

_LEFTOVER_BYTES: Final = 64 * 1024 * 1024
#: What is read ahead at most, so that several readers find room.
_AHEAD_BYTES: Final = 16 * 1024 * 1024


class FileMoved(Exception):
    """The file left the table while it was being read: look where its rows are now."""


class FileReader:
    """For everybody. `follow` brings a table up to what others committed."""

    def __init__(self, follow: Callable[[Live], None]) -> None:
        self._follow = follow
        self._leftovers = Leftovers(_LEFTOVER_BYTES)
        self._ahead = ReadAhead()

    def close(self) -> None:
        self._ahead.close()

    def gather(self, live: Live, partition: int, gathered: Gathered, end: int, columns: Sequence[str]) -> None:
        """Rows below `end`, from the next offset on, within the limits."""
        place = _place(live, partition, gathered.next_offset, columns)
        self._ahead.wait(place)
        goes_on = self._leftovers.find(place) is not None
        self._gather(live, partition, gathered, end, columns, keep_all=False)
        if goes_on and gathered.full:
            self._read_ahead(live, partition, gathered, columns)

    def row_groups(
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
            raise FileMoved from error
        except Corruption as error:
            raise _damaged(live, file, error) from error

    def _gather(
        self, live: Live, partition: int, gathered: Gathered, end: int, columns: Sequence[str], *, keep_all: bool
    ) -> None:
        for file in files_from(live.table.snapshot.files(partition), gathered.next_offset):
            if file.base_offset >= end:
                break
            for batches in self._decoded(live, partition, file, gathered, end, columns):
                if keep_all:
                    place = _place(live, partition, gathered.next_offset, columns)
                    self._leftovers.keep(place, Leftover(file.path, batches))
                for batch in batches:
                    gathered.take(batch, end)
                if gathered.full:
                    if not keep_all:
                        self._keep_rest(live, partition, file, gathered, batches, columns)
                    return
            gathered.next_offset = max(gathered.next_offset, min(end, file.next_offset))
            if gathered.full:
                return
        gathered.next_offset = end

    def _decoded(
        self, live: Live, partition: int, file: DataFile, gathered: Gathered, end: int, columns: Sequence[str]
    ) -> Iterator[Sequence[pa.RecordBatch]]:
        """What was left of the file, and then what it has behind that."""
        while gathered.next_offset < end:
            left = self._leftovers.find(_place(live, partition, gathered.next_offset, columns))
            if left is None or left.path != file.path or not left.batches:
                break
            yield left.batches
            last = int(left.batches[-1].column(0)[-1].as_py())
            gathered.next_offset = max(gathered.next_offset, min(end, last + 1))
        for part in self.row_groups(live, file, gathered.next_offset, end, columns, gathered.room):
            yield [batch for batch in part.to_batches() if batch.num_rows]

    def _keep_rest(
        self,
        live: Live,
        partition: int,
        file: DataFile,
        gathered: Gathered,
        batches: Sequence[pa.RecordBatch],
        columns: Sequence[str],
    ) -> None:
        """Also where nothing is left, so that whoever goes on is known."""
        rest = [between(batch, gathered.next_offset, NO_LIMIT) for batch in batches]
        left = Leftover(file.path, [batch for batch in rest if batch.num_rows])
        self._leftovers.keep(_place(live, partition, gathered.next_offset, columns), left)

    def _read_ahead(self, live: Live, partition: int, gathered: Gathered, columns: Sequence[str]) -> None:
        """What the next fetch will want of the files, if it wants as much."""
        offset, asked = gathered.next_offset, gathered.limits
        limits = FetchLimits(asked.records, min(asked.bytes, _AHEAD_BYTES))

        def read() -> None:
            following = Gathered(offset, limits)
            try:
                self._gather(live, partition, following, live.tails[partition].first, columns, keep_all=True)
            except (LakelogError, FileMoved):
                return  # whoever comes for it will find out himself

        self._ahead.begin(_place(live, partition, offset, columns), read)


def _place(live: Live, partition: int, offset: int, columns: Sequence[str]) -> Hashable:
    return live.id, partition, offset, *columns


def _damaged(live: Live, file: DataFile, error: Corruption) -> TopicClosed:
    where = f"partition {file.partition}, offsets {file.base_offset} to {file.last_offset}"
    return TopicClosed(live.name, f"{where}: {error}", "see what `lakelog repair` would do")
