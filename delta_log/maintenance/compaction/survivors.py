"""Rewrites files without the offsets that leave them, row group by row group.

Like merging, except that some rows go and that the rest may need more than one file. It knows files and offsets; it
must not know why offsets leave, nor tables, commits or its caller: orders and answers can be serialized.

An order may be carried out twice, by independent workers, and one answer counts. So each worker writes to unique
names, and on failure deletes only its own files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from delta_log.delta.file_commits import rewritten_name
from delta_log.delta.parquet import encode_groups, regroup, time_bounds
from delta_log.delta.verified_read import read_rows_of
from delta_log.maintenance.compaction.remote_failure import RemoteFailure, describe_failure
from delta_log.model.errors import Corruption, LakelogError
from delta_log.model.offset_sets import OffsetSet
from delta_log.model.schema import FILE_SCHEMA
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import DataFile
from delta_log.root.root import as_root
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.stores import Store

_EVERYTHING: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class SurvivorsOrder:
    """An order to rewrite neighbouring files of one partition. `name` identifies its answer."""

    root: str
    directory: str
    inputs: tuple[DataFile, ...]
    leaving: OffsetSet
    name: str
    codec: ParquetCodec
    segment_bytes: int

    @property
    def size(self) -> int:
        return sum(file.size for file in self.inputs)


@dataclass(frozen=True, slots=True)
class SurvivorsAnswer:
    """The answer to the order of that name. `begun_ms` is by the store's clock; after trouble `files` is empty."""

    name: str
    begun_ms: int = 0
    files: tuple[DataFile, ...] = ()
    trouble: RemoteFailure | None = None


def carry_out(
    orders: Sequence[SurvivorsOrder], *, store: Store | None = None, probe: Probe = no_probe
) -> list[SurvivorsAnswer]:
    """Carry out orders one after the other. An order that fails is answered like the others, and does not stop them.

    Without `store`, the store of the root that the order names is used.
    """
    return [_carry_out(order, store or as_root(order.root, probe=probe).store, probe) for order in orders]


def write_survivors(store: Store, order: SurvivorsOrder, name: str, probe: Probe = no_probe) -> Iterator[DataFile]:
    """Write files one after the other; Corruption if the rows differ from the inputs' description.

    Each file is named after its first offset and `name`.
    """
    groups = regroup(_survivors(store, order))
    following = next(groups, None)
    while following is not None:
        filling = _Filling(groups, following, order.segment_bytes)
        base = following.column("offset")[0].as_py()
        path = f"partition={order.inputs[0].partition}/{base:020d}-{name}.parquet"
        parts = filling.counted(order.codec)
        size = store.put_parts(f"{order.directory}/{path}", parts)
        following = filling.following
        low, high = filling.times
        modified_ms = min(file.modified_ms for file in order.inputs)
        yield DataFile(path, order.inputs[0].partition, base, filling.last, filling.rows, size, low, high, modified_ms)
        probe("key_compaction.file_written")


@dataclass(slots=True)
class _Filling:
    """The content of one file: row groups are added while their estimated size fits."""

    groups: Iterator[pa.Table]
    following: pa.Table | None
    most: int
    rows: int = 0
    last: int = 0
    times: tuple[int, int] = field(default=(_EVERYTHING, 0))
    _size: int = 0

    def counted(self, codec: ParquetCodec) -> Iterator[bytes | pa.Buffer]:
        for part in encode_groups(self._taken(), FILE_SCHEMA, codec, ordered_by=("offset", "timestamp")):
            self._size += len(part) if isinstance(part, bytes) else part.size
            yield part

    def _taken(self) -> Iterator[pa.Table]:
        while self.following is not None:
            group = self.following
            if self.rows and self._size * (self.rows + group.num_rows) // self.rows > self.most:
                return
            low, high = time_bounds(group)
            self.times = min(self.times[0], low), max(self.times[1], high)
            self.rows, self.last = self.rows + group.num_rows, group.column("offset")[-1].as_py()
            self.following = next(self.groups, None)
            yield group


def _carry_out(order: SurvivorsOrder, store: Store, probe: Probe) -> SurvivorsAnswer:
    begun_ms = 0
    files: list[DataFile] = []
    try:
        begun_ms = store.now_ms()
        files.extend(write_survivors(store, order, rewritten_name(None), probe))
    except (LakelogError, OSError) as error:
        for file in files:
            _try_to_delete(store, f"{order.directory}/{file.path}")
        return SurvivorsAnswer(order.name, begun_ms, trouble=describe_failure(error))
    return SurvivorsAnswer(order.name, begun_ms, tuple(files))


def _try_to_delete(store: Store, path: str) -> None:
    """Delete if possible; a file that stays is an orphan, which a sweep deletes later."""
    try:
        store.delete(path)
    except (LakelogError, OSError):
        return


def _survivors(store: Store, order: SurvivorsOrder) -> Iterator[pa.Table]:
    for file in order.inputs:
        leaving = order.leaving.between(file.base_offset, file.next_offset)
        stayed = 0
        for part in read_rows_of(store, order.directory, file, FILE_SCHEMA.names):
            numbers = part.column("offset").to_numpy()
            low, high = np.searchsorted(leaving, [numbers[0], numbers[-1] + 1])
            stays = part.filter(pa.array(~np.isin(numbers, leaving[low:high], assume_unique=True)))
            stayed += stays.num_rows
            if stays.num_rows:
                yield stays.cast(FILE_SCHEMA)
        if file.count - stayed != len(leaving):
            raise Corruption(f"{order.directory}/{file.path}", "it lacks offsets that were seen in it")
