"""Plans the compaction of a keyed table: which files become one that keeps the latest row of each key. Pure.

The newest files are merged back to the oldest file that is no larger than all newer ones together. So a file is
rewritten only when at least as many rows have come since: each row a few times (the logarithm of the table). The files
that stay are each larger than all later ones, so there are few of them. Once as many rows came as the oldest file has,
half of the table may be dead, and all of it becomes one file: only then may tombstones go, because no older row of
their keys can be left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from delta_log.model.types import DataFile

#: With no more files, and fewer rows since the oldest file, a rewrite is not worth a commit.
KEPT_FILES: Final = 10
KEPT_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class LedgerCompaction:
    """Files to merge. `whole`: the table has nothing older than the inputs."""

    inputs: tuple[DataFile, ...]
    whole: bool


def plan_ledger_compaction(files: Sequence[DataFile]) -> LedgerCompaction | None:
    """The next rewrite of a table's files, given in the order of their rows; None when it is not worth it."""
    newer = sum(file.count for file in files)
    for index, file in enumerate(files[:-1]):
        newer -= file.count
        if file.count <= newer:
            many = len(files) > KEPT_FILES or (not index and newer >= KEPT_ROWS)
            return LedgerCompaction(tuple(files[index:]), whole=not index) if many else None
    return None
