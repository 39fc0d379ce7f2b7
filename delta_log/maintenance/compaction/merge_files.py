"""Many files of one partition into one, row group by row group: the memory that it takes does not grow with them.

It knows files, and the bin that says what is in them. It must not know tables, commits, or who asked: so that it can
be done by anybody who reaches the store, and be told and answered in values that travel.
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
    """What is to be merged, where, and how; `path` is the name, within the table, of the file to be made."""

    root: str
    directory: str
    bin: Bin
    path: str
    codec: ParquetCodec


@dataclass(frozen=True, slots=True)
class MergeAnswer:
    """The file that was made; or what was missing, or damaged, or failed, and then none was.

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
    """Do them one after the other. An order that fails is answered like the others, and does not stop them.

    Without a `store`, that of the root which the order names.
    """
    return [_carry_out(order, store or as_root(order.root, probe=probe).store, probe) for order in orders]


def merge_rows(
    store: Store, directory: str, bin_: Bin, path: str, codec: ParquetCodec, schema: pa.Schema = FILE_SCHEMA
) -> DataFile:
    """Write the file; Corruption where the rows are not those that the bin says, FileNotFoundError for a lost one."""
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
    """As many rows as the bin says, in strict order of offsets, from its first to its last."""
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
