"""Size of tasks: small works are combined, so that starting a task pays; a large one has its own. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

from delta_log.model.types import DataFile

__all__ = ["TASK_BYTES", "TASK_FILES", "plan_tasks"]

TASK_BYTES: Final = 16 * 1024 * 1024
TASK_FILES: Final = 500


class _Work(Protocol):
    @property
    def inputs(self) -> tuple[DataFile, ...]: ...

    @property
    def size(self) -> int: ...


W = TypeVar("W", bound=_Work)


def plan_tasks(works: Sequence[W], *, most_bytes: int = TASK_BYTES, most_files: int = TASK_FILES) -> list[list[W]]:
    """Combine neighbouring works into tasks within the limits."""
    tasks: list[list[W]] = []
    size = files = 0
    for each in works:
        size, files = size + each.size, files + len(each.inputs)
        if not tasks or size > most_bytes or files > most_files:
            tasks.append([])
            size, files = each.size, len(each.inputs)
        tasks[-1].append(each)
    return tasks
