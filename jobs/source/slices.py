"""Reading a slice, in an executor: from the planned files, from the server, or from the current table.

The plan names the files, so that an executor need not open a table. A file that is missing was replaced or expired
since: then its records are read by the current table. If only offsets are read, a file without gaps is not opened. One
batch at a time is in memory.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Final

import numpy as np
import pyarrow as pa

from delta_log import LogReader
from delta_log.delta.parquet import OpenFile
from delta_log.fetch.fetch_result import between
from delta_log.model.errors import OffsetOutOfRange, UnknownTopic
from delta_log.root.root import as_root
from jobs.source.errors import DataLoss, UnknownTopics
from jobs.source.planning import PlannedFile, Slice
from jobs.source.positions import Range
from jobs.source.tables import root_of

_LOG: Final = logging.getLogger(__name__)
_ROWS: Final = 50_000
_BYTES: Final = 8 * 1024 * 1024
_OFFSETS: Final = ("offset",)


def warn_of(losses: Sequence[str], *, fail: bool) -> None:
    """Raise DataLoss, or log a warning for each loss."""
    if losses and fail:
        raise DataLoss(list(losses))
    for loss in losses:
        _LOG.warning("records were lost to a query: %s; it goes on with what is there", loss)


class SliceReader:
    """Reader of one slice, for one use. Rows have the requested columns, the offset first."""

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
        """Read all rows, by offset."""
        if self._tabled is not None and self._path is not None:
            in_table = min(self._end, self._tabled.end)
            try:
                yield from self._read_files(self._path, self._tabled.files, in_table)
            except FileNotFoundError:
                yield from self._read_moved(self._path, self._tabled.topic_id, in_table)
            self._position = max(self._position, in_table)
        if self._position < self._end and self._server is not None:
            yield from self._read_served(self._server)
        if self._position < self._end:
            # The topic was deleted between two reads of its tables.
            self._lose(Range(self._end, self._end), self._end)

    def _read_files(self, path: str, files: Sequence[PlannedFile], end: int) -> Iterator[pa.RecordBatch]:
        store = as_root(root_of(path)).store
        for file in files:
            if file.next_offset <= self._position:
                continue
            low = self._position
            if file.dense and self._columns == _OFFSETS:
                yield from self._passed_on(_numbered(max(low, file.base_offset), min(end, file.next_offset)), end)
                continue
            with closing(OpenFile(store, file.path)) as opened:
                for group in opened.row_groups("offset", low, end):
                    rows = opened.read([group.number], self._columns, threads=False)
                    yield from self._passed_on(rows.to_batches(), end)

    def _read_moved(self, path: str, topic_id: str, end: int) -> Iterator[pa.RecordBatch]:
        of = self._of
        with LogReader.open(root_of(path)) as reader:
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
        from jobs.source.rest_client import OutOfRange  # noqa: PLC0415 - most slices are read from files alone
        from jobs.source.server import Server  # noqa: PLC0415 - likewise

        with closing(Server(url, self._patience_ms)) as server:
            while self._position < self._end:
                try:
                    for batch in server.read(*self._of, self._position, self._end, self._columns):
                        yield from self._passed_on([batch], self._end)
                    self._position = self._end
                except OutOfRange as error:
                    self._lose(error.there, self._end)
                except UnknownTopics:
                    self._lose(Range(self._end, self._end), self._end)

    def _passed_on(self, batches: Iterable[pa.RecordBatch], end: int) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            kept = between(batch, self._position, end) if batch.num_rows else batch
            if kept.num_rows:
                yield kept
                self._position = int(kept.column(0)[-1].as_py()) + 1

    def _lose(self, there: Range, end: int) -> None:
        """Report a loss, as planned offsets are gone, and go on at what is left, if anything."""
        lost_to = min(end, there.start) if there.start > self._position else end
        warn_of([f"{self._of} from {self._position} to below {lost_to}"], fail=self._fail)
        self._position = lost_to


def _numbered(start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Generate rows that have only offsets."""
    for base in range(start, end, _ROWS):
        offsets = pa.array(np.arange(base, min(base + _ROWS, end), dtype=np.int64))
        yield pa.RecordBatch.from_arrays([offsets], names=list(_OFFSETS))


def _is_same_topic(reader: LogReader, topic: str, topic_id: str) -> bool:
    try:
        return reader.describe_topic(topic).id == topic_id
    except UnknownTopic:
        return False
