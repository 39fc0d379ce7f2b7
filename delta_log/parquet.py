"""Arrow tables ⇄ parquet blobs, the way every file of ours is written.

Checksummed pages, small row groups, statistics where readers skip by them. Parquet knows no checksum of its footer,
and a damaged one can mislead its readers or end the process: ours carries a seal right before it, where no reader of
parquet ever looks.

    PAR1  pages …  [seal  CRC-32 of all that follows]  footer  its length  PAR1
"""

from __future__ import annotations

import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_log.actions import LATEST_MS
from delta_log.errors import Corruption
from delta_log.schema import ROW_GROUP, ROW_GROUP_BYTES
from delta_log.stores.protocol import Store
from delta_log.topic_config import ParquetCodec

_SEAL: Final = b"lkl1"
_SEAL_SIZE: Final = 8
#: The footer's length and the magic behind it.
_END_SIZE: Final = 8
#: What is read of a file's end at once; most footers fit.
_END_GUESS: Final = 32 * 1024


def encode_parquet(table: pa.Table, codec: ParquetCodec, *, ordered_by: Sequence[str]) -> pa.Buffer:
    """A complete file. No dictionaries: keys and values of a log seldom repeat enough to pay for them."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=rows_of_a_group(table),
        compression=codec.name,
        compression_level=codec.level,
        use_dictionary=False,
        write_statistics=list(ordered_by),
        write_page_checksum=True,
        store_schema=False,
    )
    return seal(sink.getvalue())


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


def time_bounds(table: pa.Table) -> tuple[int, int]:
    """Milliseconds that enclose every timestamp, but for what follows the last millisecond that there is."""
    bounds = pc.min_max(table.column("timestamp").cast(pa.int64())).as_py()
    return bounds["min"] // 1000, min(-(-bounds["max"] // 1000), LATEST_MS)


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
    with _opened(store, path) as file:
        for groups in _batched(file, _overlapping(file, order, low, high), rows, size):
            yield file.read_row_groups(groups, columns=list(columns), use_threads=True)


def _batched(file: pq.ParquetFile, groups: Iterator[int], rows: int, size: int) -> Iterator[list[int]]:
    taken: list[int] = []
    held = held_bytes = 0
    for group in groups:
        about = file.metadata.row_group(group)
        taken.append(group)
        held, held_bytes = held + about.num_rows, held_bytes + about.total_byte_size
        if held >= rows or held_bytes >= size:
            yield taken
            taken, held, held_bytes = [], 0, 0
    if taken:
        yield taken


def read_file(store: Store, path: str, schema: pa.Schema) -> pa.Table:
    """A whole file, as the schema has it, every page verified."""
    with _opened(store, path) as file:
        return file.read(columns=schema.names, use_threads=False).cast(schema)


@contextmanager
def _opened(store: Store, path: str) -> Generator[pq.ParquetFile]:
    """A file of ours; Corruption for whatever turns out not to be what was written."""
    try:
        with store.open_input(path) as source:
            metadata = pq.read_metadata(pa.BufferReader(sealed_footer(source)))
            yield pq.ParquetFile(source, metadata=metadata, page_checksum_verification=True)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError) as error:
        raise Corruption(path, str(error)) from error


def _overlapping(file: pq.ParquetFile, order: str, low: int, high: int) -> Iterator[int]:
    metadata = file.metadata
    column = file.schema_arrow.get_field_index(order)
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max or (statistics.max >= low and statistics.min < high):
            yield group
