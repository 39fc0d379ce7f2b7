"""Arrow tables ⇄ parquet blobs, the way every file of ours is written.

Checksummed pages, small row groups, statistics where readers skip by them. Parquet knows no checksum of its footer,
and a damaged one can mislead its readers or end the process: ours carries a seal right before it, where no reader of
parquet ever looks. It vouches for the rest of the file, too, to those who read all of it.
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

#: A file up to this size is read at once: its footer and its pages lie so near to each other.
_SMALL: Final = 256 * 1024
#: Beyond every place that a row can have.
_UNSAID: Final = 1 << 63


def encode_parquet(table: pa.Table, codec: ParquetCodec, *, ordered_by: Sequence[str]) -> pa.Buffer:
    """A complete file."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=rows_of_a_group(table), **_options(codec, ordered_by))
    return seal(sink.getvalue())


def encode_groups(
    groups: Iterable[pa.Table], schema: pa.Schema, codec: ParquetCodec, *, ordered_by: Sequence[str]
) -> Iterator[bytes | pa.Buffer]:
    """The same file, part by part: a row group for each table that is given, and no more than that in memory."""
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
    """The same rows in row groups of the size that `encode_parquet` gives them."""
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
    """As many as a reader who wants a few of them should have to decode."""
    if table.nbytes <= ROW_GROUP_BYTES:
        return ROW_GROUP
    return max(1, min(ROW_GROUP, ROW_GROUP_BYTES * table.num_rows // table.nbytes))


class _Parts:
    """What a parquet writer takes for an open file: it keeps what is written until it is taken."""

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
        """It is whoever takes the parts who brings them to a disk."""

    def close(self) -> None:
        self.closed = True

    def take(self) -> list[bytes]:
        taken, self._parts = self._parts, []
        return taken


def _options(codec: ParquetCodec, ordered_by: Sequence[str]) -> dict[str, Any]:
    """Dictionaries only of producers: keys and values of a log seldom repeat enough to pay for them."""
    return {
        "compression": codec.name,
        "compression_level": codec.level,
        "use_dictionary": ["producer_id", "producer_epoch"],
        "write_statistics": list(ordered_by),
        "write_page_checksum": True,
        "store_schema": False,
    }


def time_bounds(table: pa.Table) -> tuple[int, int]:
    """Milliseconds that enclose every timestamp, but for what follows the last millisecond that there is."""
    bounds = pc.min_max(table.column("timestamp").cast(pa.int64())).as_py()
    return bounds["min"] // 1000, min(-(-bounds["max"] // 1000), LATEST_MS)


class OpenFile:
    """A file of ours whose footer was read; Corruption for whatever turns out not to be what was written.

    While it is open it can be read, even when it was deleted, and by several threads at once: nothing is buffered
    ahead, as that would be one buffer for all of them. `at_once` brings all its bytes into memory, as they are stored.
    They are vouched for then, as they are with `whole`, whatever of them is read.
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
        """Those that may hold low ≤ order < high. One of which nothing is said may hold everything."""
        metadata = self._file.metadata
        column = self._file.schema_arrow.get_field_index(order)
        for number in range(metadata.num_row_groups):
            with _blamed(self.path):
                group = _describe(metadata.row_group(number), number, column)
            if group.last >= low and group.first < high:
                yield group

    def read(self, groups: Sequence[int], columns: Sequence[str], *, threads: bool = True) -> pa.Table:
        """The rows of row groups, every page verified; `threads` for who has cores to spare."""
        with _blamed(self.path):
            return self._file.read_row_groups(groups, columns=list(columns), use_threads=threads)

    def read_all(self, schema: pa.Schema) -> pa.Table:
        """All rows, as the schema has them, every page verified."""
        with _blamed(self.path):
            rows = self._file.read(use_threads=False)
            return rows if rows.schema.equals(schema) else rows.select(schema.names).cast(schema)

    def parts(self, columns: Sequence[str], rows: int, schema: pa.Schema | None) -> Iterator[pa.Table]:
        """The same, some row groups at a time."""
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
    """The rows of a file whose row groups may hold low ≤ order < high, about `rows` or `size` bytes at a time."""
    with closing(OpenFile(store, path)) as file:
        for groups in batch_groups(file.row_groups(order, low, high), rows, size):
            yield file.read([group.number for group in groups], columns)


def batch_groups(groups: Iterable[RowGroup], rows: int, size: int) -> Iterator[list[RowGroup]]:
    """As few at a time as have so many rows or bytes."""
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
    """A whole file, as the schema has it, every page verified."""
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
    """All rows of a file, about so many at a time, by this thread alone: who reads many files reads several at once.

    They come as they are stored, or as a schema has them. `size` is the file's, as far as it is known already: a small
    one is read at once. With `whole`, none come of a file that has one byte that was not written.
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
