"""Arrow tables ⇄ parquet blobs, the way every file of ours is written.

Checksummed pages, small row groups, statistics where readers skip by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from delta_log.errors import Corruption
from delta_log.stores.protocol import Store

ROW_GROUP: Final = 10_000


@dataclass(frozen=True, slots=True)
class Codec:
    """A parquet codec with its level; None where the codec knows none."""

    name: str = "zstd"
    level: int | None = 1


def encode_parquet(table: pa.Table, codec: Codec, *, ordered_by: Sequence[str]) -> pa.Buffer:
    """A complete file. No dictionaries: keys and values of a log seldom repeat enough to pay for them."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=ROW_GROUP,
        compression=codec.name,
        compression_level=codec.level,
        use_dictionary=False,
        write_statistics=list(ordered_by),
        write_page_checksum=True,
        store_schema=False,
    )
    return sink.getvalue()


def time_bounds(table: pa.Table) -> tuple[int, int]:
    """Milliseconds that surely enclose every timestamp."""
    bounds = pc.min_max(table.column("timestamp").cast(pa.int64())).as_py()
    return bounds["min"] // 1000, -(-bounds["max"] // 1000)


def read_row_groups(
    store: Store,
    path: str,
    columns: Sequence[str],
    *,
    low: int,
    high: int,
    order: str = "offset",
    rows: int = ROW_GROUP,
) -> Iterator[pa.Table]:
    """The rows of a file whose row groups may hold low ≤ order < high, about `rows` of them at a time."""
    try:
        with store.open_input(path) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            for groups in _batched(file, _overlapping(file, order, low, high), rows):
                yield file.read_row_groups(groups, columns=list(columns), use_threads=len(groups) > 1)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corruption(path, str(error)) from error


def _batched(file: pq.ParquetFile, groups: Iterator[int], rows: int) -> Iterator[list[int]]:
    taken: list[int] = []
    held = 0
    for group in groups:
        taken.append(group)
        held += file.metadata.row_group(group).num_rows
        if held >= rows:
            yield taken
            taken, held = [], 0
    if taken:
        yield taken


def read_file(store: Store, path: str, schema: pa.Schema) -> pa.Table:
    """A whole file, as the schema has it, every page verified."""
    try:
        with store.open_input(path) as source:
            file = pq.ParquetFile(source, page_checksum_verification=True)
            return file.read(columns=schema.names, use_threads=False).cast(schema)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Corruption(path, str(error)) from error


def _overlapping(file: pq.ParquetFile, order: str, low: int, high: int) -> Iterator[int]:
    metadata = file.metadata
    column = file.schema_arrow.get_field_index(order)
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max or (statistics.max >= low and statistics.min < high):
            yield group
