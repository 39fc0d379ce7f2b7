"""Groups files into audit orders, and determines in which files no offset may be missing. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from delta_log.maintenance.audit.audit_files import AuditOrder
from delta_log.model.lost_ranges import LostRange, count_within
from delta_log.model.types import DataFile


def plan_audit_orders(
    root: str,
    directory: str,
    files: Iterable[DataFile],
    *,
    clean: Callable[[int], int],
    lost: Sequence[LostRange] = (),
    most_bytes: int,
    most_files: int,
) -> Iterator[AuditOrder]:
    """Split all files into orders of limited size.

    Below `clean` of its partition, a key compaction may have removed offsets from a file; `lost` offsets were given up.
    """
    told = [(_is_dense(file, clean, lost), file.partition, file.base_offset, file) for file in files]
    taken: list[DataFile] = []
    size, before = 0, True
    for dense, _, _, file in sorted(told, key=lambda each: each[:3]):
        if taken and (dense != before or size + file.size > most_bytes or len(taken) == most_files):
            yield AuditOrder(root, directory, tuple(taken), before)
            taken, size = [], 0
        taken.append(file)
        size, before = size + file.size, dense
    if taken:
        yield AuditOrder(root, directory, tuple(taken), before)


def _is_dense(file: DataFile, clean: Callable[[int], int], lost: Sequence[LostRange]) -> bool:
    given_up = count_within(lost, file.partition, file.base_offset, file.last_offset)
    return file.base_offset >= clean(file.partition) and not given_up
