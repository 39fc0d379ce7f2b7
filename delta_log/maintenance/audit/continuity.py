"""Whether the files of a partition, one behind the other, hold every offset from the log start to the end. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from delta_log.model.lost_ranges import LostRange, subtract
from delta_log.model.types import DataFile


class Finding(NamedTuple):
    """`file` is empty where it is about what lies between files."""

    file: str
    what: str

    def __str__(self) -> str:
        """One line, whatever a library had to say."""
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
    """Overlaps, and what is missing between the log start and the end; between `dense` files alone that can be said.

    Below `clean` a key compaction may have left some out. Offsets that were given up are `lost`, not missing.
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
