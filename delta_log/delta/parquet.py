"""Arrow tables ⇄ parquet blobs, in the layout of all lakelog files.

Checksummed pages, small row groups, statistics on the columns that readers skip by. Parquet has no checksum of its
footer, and a damaged one can mislead readers or crash the process: so a seal is stored right before the footer, where
no parquet reader looks. It also covers the rest of the file, for readers of all of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_log.delta.checksums import checksum_on, seal, sealed_footer
from delta_log.model.errors import Corruption
from delta_log.model.schema import ROW_GROUP, ROW_GROUP_BYTES
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import LATEST_MS, RowGroup
from delta_log.stores.protocol import Store

#: A file up to this size is read at once, as its footer and its pages are close together.
_SMALL: Final = 256 * 1024
#: Bound beyond every place that a row can have, for missing statistics.
_UNSAID: Final = 1 << 63


def encode_parquet(table: pa.Table, codec: ParquetCodec, *, ordered_by: Sequence[str]) -> pa.Buffer:
    """Encode a complete file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=rows_of_a_group(table), **_options(codec, ordered_by))
    return seal(sink.getvalue())


def encode_groups(
    groups: Iterable[pa.Table], schema: pa.Schema, codec: ParquetCodec, *, ordered_by: Sequence[str]
) -> Iterator[bytes | pa.Buffer]:
    """Encode a file part by part: a row group per given table, with no more than that in memory."""
    sink = _Parts()
    known = 0
    with closing(pq.ParquetWriter(sink, schema, **_options(codec, ordered_by))) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=max(1, group.num_rows))
            for part in sink.take():
                known = checksum_on(known, part)
                yield part
    yield seal(pa.py_buffer(b"".join(sink.take())), known)


def regroup(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Split rows into tables of the row-group size of `encode_parquet`."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows, size = rows + table.num_rows, size + table.get_total_buffer_size()
        if rows < ROW_GROUP and size < ROW_GROUP_BYTES:
            continue
        whole = pa.concat_tables(held)
        step = rows_of_a_group(whole)
        for place in range(0, rows - step + 1, step):
            yield whole.slice(place, step).combine_chunks()
        rest = whole.slice(rows - rows % step).combine_chunks()
        held, rows, size = [rest], rest.num_rows, rest.nbytes
    if rows:
        yield pa.concat_tables(held).combine_chunks()


def rows_of_a_group(table: pa.Table) -> int:
    """Rows per row group: as many as a reader of a few rows should have to decode."""
    if table.nbytes <= ROW_GROUP_BYTES:
        return ROW_GROUP
    return max(1, min(ROW_GROUP, ROW_GROUP_BYTES * table.num_rows // table.nbytes))


class _Parts:
    """File object for a parquet writer: keeps written bytes until they are taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self.closed = False

    def write(self, data: bytes | memoryview) -> int:
        self._parts.append(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Do nothing: the caller of `take` stores the parts."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> list[bytes]:
        taken, self._parts = self._parts, []
        return taken


def _options(codec: ParquetCodec, ordered_by: Sequence[str]) -> dict[str, Any]:
    """Writer options. Dictionaries only for producer columns: keys and values seldom repeat enough to pay off."""
    return {
        "compression": codec.name,
        "compression_level": codec.level,
        "use_dictionary": ["producer_id", "producer_epoch"],
        "write_statistics": list(ordered_by),
        "write_page_checksum": True,
        "store_schema": False,
    }


def time_bounds(table: pa.Table) -> tuple[int, int]:
    """Bounds in milliseconds that enclose every timestamp, capped at the last representable millisecond."""
    bounds = pc.min_max(table.column("timestamp").cast(pa.int64())).as_py()
    return bounds["min"] // 1000, min(-(-bounds["max"] // 1000), LATEST_MS)


class OpenFile:
    """A lakelog file with its footer read; Corruption if anything read turns out damaged.

    While open, a local file can be read even after its deletion, and by several threads at once: nothing is buffered
    ahead, as they would share that buffer. `at_once` reads all stored bytes into memory. With it, as with `whole`, all
    bytes are verified, whichever of them are read.
    """

    def __init__(self, store: Store, path: str, *, at_once: bool = False, whole: bool = False) -> None:
        self.path = path
        with _blamed(path):
            self._source = pa.BufferReader(store.read(path)) if at_once else store.open_input(path)
            try:
                footer = sealed_footer(self._source, whole=whole or at_once)
                metadata = None if at_once else pq.read_metadata(pa.BufferReader(footer))
                self._file = pq.ParquetFile(
                    self._source, metadata=metadata, page_checksum_verification=True, pre_buffer=False
                )
            except BaseException:
                self._source.close()
                raise

    def row_groups(self, order: str, low: int, high: int) -> Iterator[RowGroup]:
        """The row groups that may hold low ≤ order < high, including those without statistics."""
        metadata = self._file.metadata
        column = self._file.schema_arrow.get_field_index(order)
        for number in range(metadata.num_row_groups):
            with _blamed(self.path):
                group = _describe(metadata.row_group(number), number, column)
            if group.last >= low and group.first < high:
                yield group

    def read(self, groups: Sequence[int], columns: Sequence[str], *, threads: bool = True) -> pa.Table:
        """Read the rows of row groups, every page verified; `threads`: decode in several threads."""
        with _blamed(self.path):
            return self._file.read_row_groups(groups, columns=list(columns), use_threads=threads)

    def read_all(self, schema: pa.Schema) -> pa.Table:
        """Read all rows, cast to the schema, every page verified."""
        with _blamed(self.path):
            rows = self._file.read(use_threads=False)
            return rows if rows.schema.equals(schema) else rows.select(schema.names).cast(schema)

    def parts(self, columns: Sequence[str], rows: int, schema: pa.Schema | None) -> Iterator[pa.Table]:
        """Read all rows, some row groups at a time."""
        metadata = self._file.metadata
        taken: list[int] = []
        held = size = 0
        for number in range(metadata.num_row_groups):
            with _blamed(self.path):
                group = metadata.row_group(number)
                taken.append(number)
                held, size = held + group.num_rows, size + group.total_byte_size
                if held < rows and size < ROW_GROUP_BYTES and number < metadata.num_row_groups - 1:
                    continue
                part = self._file.read_row_groups(taken, columns=list(columns), use_threads=False)
                if schema is not None and not part.schema.equals(schema):
                    part = part.select(schema.names).cast(schema)
            yield part
            taken, held, size = [], 0, 0

    def close(self) -> None:
        self._source.close()


def read_row_groups(
    store: Store,
    path: str,
    columns: Sequence[str],
    *,
    low: int,
    high: int,
    order: str = "offset",
    rows: int = ROW_GROUP,
    size: int = ROW_GROUP_BYTES,
) -> Iterator[pa.Table]:
    """Read the row groups of a file that may hold low ≤ order < high, about `rows` or `size` bytes at a time."""
    with closing(OpenFile(store, path)) as file:
        for groups in batch_groups(file.row_groups(order, low, high), rows, size):
            yield file.read([group.number for group in groups], columns)


def batch_groups(groups: Iterable[RowGroup], rows: int, size: int) -> Iterator[list[RowGroup]]:
    """Batch row groups: as few at a time as have `rows` rows or `size` bytes."""
    taken: list[RowGroup] = []
    held = held_bytes = 0
    for group in groups:
        taken.append(group)
        held, held_bytes = held + group.rows, held_bytes + group.size
        if held >= rows or held_bytes >= size:
            yield taken
            taken, held, held_bytes = [], 0, 0
    if taken:
        yield taken


def read_file(store: Store, path: str, schema: pa.Schema) -> pa.Table:
    """Read a whole file, cast to the schema, every page verified."""
    with closing(OpenFile(store, path, at_once=True)) as file:
        return file.read_all(schema)


def read_parts(
    store: Store,
    path: str,
    columns: Sequence[str],
    size: int,
    *,
    rows: int = ROW_GROUP,
    schema: pa.Schema | None = None,
    whole: bool = False,
) -> Iterator[pa.Table]:
    """Read all rows of a file, about `rows` at a time, in this thread alone: callers with many files run several.

    Rows are returned as stored, or cast to `schema`. `size` is the file's, as far as known: a small file is read at
    once. With `whole`, no rows are returned from a file with any damaged byte.
    """
    with closing(OpenFile(store, path, at_once=size <= _SMALL, whole=whole)) as file:
        yield from file.parts(columns, rows, schema)


@contextmanager
def _blamed(path: str) -> Generator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        raise Corruption(path, str(error)) from error


def _describe(group: pq.RowGroupMetaData, number: int, column: int) -> RowGroup:
    statistics = group.column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return RowGroup(number, -_UNSAID, _UNSAID, group.num_rows, group.total_byte_size)
    return RowGroup(number, statistics.min, statistics.max, group.num_rows, group.total_byte_size)
