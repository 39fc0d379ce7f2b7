"""Which files of a ledger's table become one that keeps the latest row of each key. Pure.

The newest files are merged as far back as a file is no larger than all that is newer. So what a file holds is written
again only when at least as much has come since: each row a few times (the logarithm of the table), whatever its size.
The files that stay are each larger than all that follow, so there are few of them; and where as many rows came as the
oldest file has, half of the table may be dead, and all of it becomes one file: only then may tombstones go, as nothing
older can be left of what they delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from delta_log.model.types import DataFile

#: So many files may lie side by side, and so few rows may be dead, before it is worth a commit.
KEPT_FILES: Final = 10
KEPT_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class LedgerCompaction:
    """`whole`: there is nothing older in the table than the inputs."""

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
