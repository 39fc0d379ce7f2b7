"""Reading a slice, in an executor: from files by their names, from the server, or from where the files went.

The files were named when the slice was planned, so nobody here opens a table. One that is no longer there was replaced
or expired since: then the table, as it is now, says where its records are. A batch is in memory at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa

from delta_log import LogReader
from delta_log.errors import OffsetOutOfRange, UnknownTopic
from delta_log.fetched import between
from delta_log.parquet import read_row_groups
from delta_log.roots import as_root
from jobs.source.errors import DataLoss
from jobs.source.planning import PlannedFile, Slice
from jobs.source.positions import Range
from jobs.source.server import OutOfRange, Server
from jobs.source.tables import local_path

_LOG: Final = logging.getLogger(__name__)
_ROWS: Final = 50_000
_BYTES: Final = 8 * 1024 * 1024


def warn_of(losses: Sequence[str], *, fail: bool) -> None:
    """DataLoss, or a line for each."""
    if losses and fail:
        raise DataLoss(list(losses))
    for loss in losses:
        _LOG.warning("records were lost to a query: %s; it goes on with what is there", loss)


class SliceReader:
    """Of one slice, once. The rows have the columns that are asked for, the offset first."""

    def __init__(
        self,
        of: Slice,
        columns: Sequence[str],
        *,
        path: str | None,
        server: str | None,
        patience_ms: int,
        fail_on_data_loss: bool,
    ) -> None:
        self._of = of.span.of
        self._end = of.span.end
        self._tabled = of.tabled
        self._columns = columns
        self._path = path
        self._server = server
        self._patience_ms = patience_ms
        self._fail = fail_on_data_loss
        self._position = of.span.start

    def read(self) -> Iterator[pa.RecordBatch]:
        """All rows, in the order of their offsets."""
        if self._tabled is not None and self._path is not None:
            in_table = min(self._end, self._tabled.end)
            try:
                yield from self._read_files(self._path, self._tabled.files, in_table)
            except FileNotFoundError:
                yield from self._read_moved(self._path, self._tabled.topic_id, in_table)
            self._position = max(self._position, in_table)
        if self._position < self._end and self._server is not None:
            yield from self._read_served(self._server)

    def _read_files(self, path: str, files: Sequence[PlannedFile], end: int) -> Iterator[pa.RecordBatch]:
        store = as_root(local_path(path)).store
        for file in files:
            if file.next_offset <= self._position:
                continue
            low = self._position
            for part in read_row_groups(store, file.path, self._columns, low=low, high=end, rows=_ROWS, size=_BYTES):
                yield from self._passed_on(part.to_batches(), end)

    def _read_moved(self, path: str, topic_id: str, end: int) -> Iterator[pa.RecordBatch]:
        of = self._of
        with LogReader.open(local_path(path)) as reader:
            while self._position < end:
                if not _is_same_topic(reader, of.topic, topic_id):
                    self._lose(Range(end, end), end)
                    return
                try:
                    got = reader.read(of.topic, of.partition, self._position, max_bytes=_BYTES, columns=self._columns)
                except OffsetOutOfRange as error:
                    self._lose(Range(error.log_start_offset, error.end_offset), end)
                else:
                    yield from self._passed_on(got.batches, end)
                    self._position = max(self._position, got.next_offset)

    def _read_served(self, url: str) -> Iterator[pa.RecordBatch]:
        with closing(Server(url, self._patience_ms)) as server:
            while self._position < self._end:
                try:
                    for batch in server.read(*self._of, self._position, self._end, self._columns):
                        yield from self._passed_on([batch], self._end)
                    self._position = self._end
                except OutOfRange as error:
                    self._lose(error.there, self._end)

    def _passed_on(self, batches: Sequence[pa.RecordBatch], end: int) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kept = between(batch, self._position, end) if batch.num_rows else batch
            if kept.num_rows:
                yield kept
                self._position = int(kept.column(0)[-1].as_py()) + 1

    def _lose(self, there: Range, end: int) -> None:
        """What was planned is not there any more. What is, if anything, begins later."""
        lost_to = min(end, there.start) if there.start > self._position else end
        warn_of([f"{self._of} from {self._position} to below {lost_to}"], fail=self._fail)
        self._position = lost_to


def _is_same_topic(reader: LogReader, topic: str, topic_id: str) -> bool:
    try:
        return reader.describe_topic(topic).id == topic_id
    except UnknownTopic:
        return False
