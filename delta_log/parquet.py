"""Arrow tables ⇄ parquet blobs, the way every file of ours is written.

Checksummed pages, small row groups, statistics where readers skip by them. Parquet knows no checksum of its footer,
and a damaged one can mislead its readers or end the process: ours carries a seal right before it, where no reader of
parquet ever looks.

    PAR1  pages …  [seal  CRC-32 of all that follows]  footer  its length  PAR1
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_log.actions import LATEST_MS
from delta_log.errors import Corruption
from delta_log.schema import ROW_GROUP, ROW_GROUP_BYTES
from delta_log.stores.protocol import Store
from delta_log.topic_config import ParquetCodec
from delta_log.types import RowGroup

_SEAL: Final = b"lkl1"
_SEAL_SIZE: Final = 8
#: The footer's length and the magic behind it.
_END_SIZE: Final = 8
#: What is read of a file's end at once; most footers fit.
_END_GUESS: Final = 32 * 1024
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
    with closing(pq.ParquetWriter(sink, schema, **_options(codec, ordered_by))) as writer:
        for group in groups:
            writer.write_table(group, row_group_size=max(1, group.num_rows))
            yield from sink.take()
    yield seal(pa.py_buffer(b"".join(sink.take())))


def regroup(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in row groups of the size that `encode_parquet` gives them."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        held.append(table)
        rows, size = rows + table.num_rows, size + table.nbytes
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


def seal(data: pa.Buffer) -> pa.Buffer:
    """The same file with a checksum of its footer."""
    whole = memoryview(data)
    at = len(whole) - _END_SIZE - int.from_bytes(whole[-8:-4], "little")
    footer = whole[at:]
    return pa.py_buffer(b"".join((whole[:at], _SEAL, zlib.crc32(footer).to_bytes(4, "little"), footer)))


def sealed_footer(source: pa.NativeFile, *, needed: bool = True) -> bytes:
    """The footer with its length and magic, as it was written; empty where no seal is in front of it nor `needed`."""
    size = source.size()
    end = source.read_at(min(size, _END_GUESS), max(0, size - _END_GUESS))
    length = int.from_bytes(end[-8:-4], "little") + _END_SIZE + _SEAL_SIZE
    if len(end) < length <= size:
        end = source.read_at(length, size - length)
    mark, footer = end[-length:][:_SEAL_SIZE], end[-length:][_SEAL_SIZE:]
    if mark == _SEAL + zlib.crc32(footer).to_bytes(4, "little"):
        return footer
    if needed or mark.startswith(_SEAL):
        raise ValueError("its footer is not what was written")
    return b""


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
    """No dictionaries: keys and values of a log seldom repeat enough to pay for them."""
    return {
        "compression": codec.name,
        "compression_level": codec.level,
        "use_dictionary": False,
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
    ahead, as that would be one buffer for all of them.
    """

    def __init__(self, store: Store, path: str) -> None:
        self.path = path
        with _blamed(path):
            self._source = store.open_input(path)
            try:
                metadata = pq.read_metadata(pa.BufferReader(sealed_footer(self._source)))
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

    def read(self, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        """The rows of row groups, every page verified."""
        with _blamed(self.path):
            return self._file.read_row_groups(groups, columns=list(columns), use_threads=True)

    def read_all(self, schema: pa.Schema) -> pa.Table:
        """All rows, as the schema has them, every page verified."""
        with _blamed(self.path):
            return self._file.read(columns=schema.names, use_threads=False).cast(schema)

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
    with closing(OpenFile(store, path)) as file:
        return file.read_all(schema)


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
