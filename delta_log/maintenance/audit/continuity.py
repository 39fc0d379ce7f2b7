"""Checks that the files of a partition together hold every offset from the log start to the end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from delta_log.model.lost_ranges import LostRange, subtract
from delta_log.model.types import DataFile


class Finding(NamedTuple):
    """A defect. `file` is empty if the defect lies between files."""

    file: str
    what: str

    def __str__(self) -> str:
        """Always one line, even if a library's message has several."""
        what = " ".join(self.what.split())
        return f"{self.file}: {what}" if self.file else what


def check_chain(
    files: Sequence[DataFile],
    *,
    partition: int,
    log_start: int,
    end: int,
    dense: bool,
    clean: int = 0,
    lost: Sequence[LostRange] = (),
) -> list[Finding]:
    """Find overlaps, and gaps between the log start and the end. Gaps can only be found if files are `dense`.

    Below `clean` a key compaction may have removed offsets. Offsets that were given up are `lost`, not missing.
    """
    findings: list[Finding] = []
    following = log_start
    before: DataFile | None = None
    for file in files:
        if file.last_offset < log_start:
            continue
        if before is not None and file.base_offset < before.next_offset:
            findings.append(Finding(file.path, f"it begins at {file.base_offset}, and {before.path} ends behind that"))
        elif dense and file.base_offset > max(following, clean):
            findings += _missing(partition, max(following, clean), file.base_offset, lost)
        following, before = max(following, file.next_offset), file
    if following > end:
        findings.append(Finding("", f"partition {partition} has offsets up to {following - 1}, and ends at {end}"))
    elif dense and max(following, clean) < end:
        findings += _missing(partition, max(following, clean), end, lost)
    return findings


def _missing(partition: int, first: int, behind: int, lost: Sequence[LostRange]) -> list[Finding]:
    left = subtract(LostRange(partition, first, behind - 1), lost)
    return [Finding("", f"partition {partition} lacks the offsets {one.first} to {one.last}") for one in left]
