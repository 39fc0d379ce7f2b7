"""The actions of a checkpoint as columns, piece by piece.

A table with a long history has tens of thousands of files, and encoding them in Python would hold the GIL while
requests wait: so Arrow builds whole columns, without the GIL, and between two pieces other threads can run. It knows
files and tombstones as values. It must not know parquet, nor when a checkpoint is written, nor which threads wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from delta_log.delta.actions import Remove
from delta_log.model.types import DataFile

F = TypeVar("F", DataFile, Remove)

#: Rows per piece: about a third of a millisecond.
PIECE: Final = 250

STRINGS: Final = pa.map_(pa.string(), pa.string())
ADD: Final = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", STRINGS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", STRINGS),
    ]
)
REMOVE: Final = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRINGS),
        ("size", pa.int64()),
    ]
)
_NO, _YES = map(pa.scalar, (False, True))
_of_file = attrgetter(
    "path",
    "partition",
    "size",
    "modified_ms",
    "count",
    "base_offset",
    "last_offset",
    "min_timestamp_ms",
    "max_timestamp_ms",
)
_of_tombstone = attrgetter("path", "deleted_ms", "partition", "size")


def add_columns(files: Iterable[DataFile]) -> Iterator[pa.StructArray]:
    """Each file as an `add` that changes no data."""
    for partitioned, piece in _pieces(files):
        paths, partitions, sizes, modified, *bounds = zip(*map(_of_file, piece), strict=True)
        columns = [
            pa.array(paths, pa.string()),
            _partition_values(partitions, partitioned=partitioned),
            pa.array(sizes, pa.int64()),
            pa.array(modified, pa.int64()),
            pa.repeat(_NO, len(piece)),
            _stats(*(pa.array(bound, pa.int64()) for bound in bounds), partitioned=partitioned),
            pa.nulls(len(piece), STRINGS),
        ]
        yield pa.StructArray.from_arrays(columns, fields=list(ADD))


def remove_columns(tombstones: Iterable[Remove]) -> Iterator[pa.StructArray]:
    """Each tombstone as a `remove` that changes no data."""
    for partitioned, piece in _pieces(tombstones):
        paths, deleted, partitions, sizes = zip(*map(_of_tombstone, piece), strict=True)
        columns = [
            pa.array(paths, pa.string()),
            pa.array(deleted, pa.int64()),
            pa.repeat(_NO, len(piece)),
            pa.repeat(_YES, len(piece)),
            _partition_values(partitions, partitioned=partitioned),
            pa.array(sizes, pa.int64()),
        ]
        yield pa.StructArray.from_arrays(columns, fields=list(REMOVE))


def _pieces(named: Iterable[F]) -> Iterator[tuple[bool, list[F]]]:
    """Split into pieces, each with a flag whether its files are in partitions: in one table all are, or none is."""
    for partitioned, alike in groupby(named, key=lambda each: each.partition >= 0):
        while piece := list(islice(alike, PIECE)):
            yield partitioned, piece


def _partition_values(partitions: Sequence[int], *, partitioned: bool) -> pa.MapArray:
    values = pa.array(partitions if partitioned else (), pa.int64()).cast(pa.string())
    offsets = pa.array(range(len(partitions) + 1) if partitioned else [0] * (len(partitions) + 1), pa.int32())
    return pa.MapArray.from_arrays(offsets, pa.repeat("partition", len(values)), values)


def _stats(
    count: pa.Array, base: pa.Array, last: pa.Array, low_ms: pa.Array, high_ms: pa.Array, *, partitioned: bool
) -> pa.Array:
    """The statistics of each file, identical to those of `file_stats`."""
    if not partitioned:
        return _joined(
            '{"numRecords":', count, ',"minValues":{"commit_seq":', base, '},"maxValues":{"commit_seq":', last,
            '},"nullCount":{"commit_seq":0}}',
        )  # fmt: skip
    return _joined(
        '{"numRecords":', count,
        ',"minValues":{"offset":', base, ',"timestamp":"', _iso(low_ms),
        'Z"},"maxValues":{"offset":', last, ',"timestamp":"', _iso(high_ms),
        'Z"},"nullCount":{"offset":0,"timestamp":0}}',
    )  # fmt: skip


def _iso(ms: pa.Array) -> pa.Array:
    """Format timestamps as ISO: Arrow's text has a blank in place of the T."""
    return pc.binary_replace_slice(ms.cast(pa.timestamp("ms")).cast(pa.string()), 10, 11, "T")


def _joined(*parts: pa.Array | str) -> pa.Array:
    texts = [part if isinstance(part, str) else part.cast(pa.string()) for part in parts]
    return pc.binary_join_element_wise(*texts, "")
