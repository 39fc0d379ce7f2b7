"""What becomes of data files, for tests of plans."""

from collections.abc import Sequence

from delta_log.model.types import DataFile


def merged(inputs: Sequence[DataFile]) -> DataFile:
    first, last = inputs[0], inputs[-1]
    return DataFile(
        f"{first.path}+{len(inputs)}",
        first.partition,
        first.base_offset,
        last.last_offset,
        sum(f.count for f in inputs),
        sum(f.size for f in inputs),
        min(f.min_timestamp_ms for f in inputs),
        max(f.max_timestamp_ms for f in inputs),
        first.modified_ms,
    )
