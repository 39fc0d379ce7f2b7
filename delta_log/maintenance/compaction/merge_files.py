"""Merges files of one partition into one, row group by row group: memory does not grow with the files.

It knows files, and the bin that describes their content. It must not know tables, commits or its caller, so that any
worker that reaches the store can do it; orders and answers can be serialized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from delta_log.delta.parquet import encode_groups, read_parts, regroup
from delta_log.model.errors import Corruption, LakelogError
from delta_log.model.file_bin import Bin
from delta_log.model.schema import FILE_SCHEMA
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import DataFile
from delta_log.records.arrow_columns import strictly_rising
from delta_log.root.root import as_root
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.stores import Store


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """An order to merge a bin of files; `path` is the name of the new file within the table."""

    root: str
    directory: str
    bin: Bin
    path: str
    codec: ParquetCodec


@dataclass(frozen=True, slots=True)
class MergeAnswer:
    """The result of an order: the new file, or else the cause: a missing or damaged file, or another failure.

    `begun_ms` is by the store's clock.
    """

    order: MergeOrder
    begun_ms: int = 0
    file: DataFile | None = None
    missing: str = ""
    damaged: tuple[str, str] | None = None
    failed: str = ""


def carry_out(
    orders: Sequence[MergeOrder], *, store: Store | None = None, probe: Probe = no_probe
) -> list[MergeAnswer]:
    """Carry out orders one after the other. An order that fails is answered like the others, and does not stop them.

    Without `store`, the store of the root that the order names is used.
    """
    return [_carry_out(order, store or as_root(order.root, probe=probe).store, probe) for order in orders]


def merge_rows(
    store: Store, directory: str, bin_: Bin, path: str, codec: ParquetCodec, schema: pa.Schema = FILE_SCHEMA
) -> DataFile:
    """Write the file; Corruption if the rows differ from the bin's description, FileNotFoundError for a lost file."""
    rows = _checked(regroup(_rows(store, directory, bin_.inputs, schema)), directory, bin_)
    parts = encode_groups(rows, schema, codec, ordered_by=("offset", "timestamp"))
    size = store.put_parts(f"{directory}/{path}", parts)
    return DataFile(
        path,
        bin_.partition,
        bin_.base_offset,
        bin_.last_offset,
        bin_.count,
        size,
        min(file.min_timestamp_ms for file in bin_.inputs),
        max(file.max_timestamp_ms for file in bin_.inputs),
        bin_.modified_ms,
    )


def _carry_out(order: MergeOrder, store: Store, probe: Probe) -> MergeAnswer:
    begun_ms = 0
    try:
        begun_ms = store.now_ms()
        file = merge_rows(store, order.directory, order.bin, order.path, order.codec)
    except FileNotFoundError as missing:
        return MergeAnswer(order, begun_ms, missing=str(missing))
    except Corruption as error:
        return MergeAnswer(order, begun_ms, damaged=(error.file, error.why))
    except (LakelogError, OSError) as error:
        return MergeAnswer(order, begun_ms, failed=str(error))
    probe("compaction.file_written")
    return MergeAnswer(order, begun_ms, file)


def _rows(store: Store, directory: str, files: Sequence[DataFile], schema: pa.Schema) -> Iterator[pa.Table]:
    for file in files:
        path = f"{directory}/{file.path}"
        try:
            yield from read_parts(store, path, schema.names, file.size, schema=schema)
        except FileNotFoundError as error:
            raise FileNotFoundError(path) from error


def _checked(tables: Iterable[pa.Table], directory: str, bin_: Bin) -> Iterator[pa.Table]:
    """Pass the tables on; Corruption unless their row count, first and last offset are the bin's, and offsets rise."""
    count, before = 0, -1
    for table in tables:
        if table.num_rows == 0:
            continue
        offsets = table.column("offset").combine_chunks()
        first, last = int(offsets[0].as_py()), int(offsets[-1].as_py())
        begins = first > before if count else first == bin_.base_offset
        if not begins or not strictly_rising(offsets):
            raise _wrong(directory, bin_)
        count, before = count + table.num_rows, last
        yield table
    if (count, before) != (bin_.count, bin_.last_offset):
        raise _wrong(directory, bin_)


def _wrong(directory: str, bin_: Bin) -> Corruption:
    return Corruption(f"{directory}/{bin_.inputs[0].path}", "its rows are not those that the table's log names")
