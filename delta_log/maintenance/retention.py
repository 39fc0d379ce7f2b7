"""What leaves a partition: by age, by size, and because somebody deleted records.

    removed = a prefix of the live files, whole files only: each, as long as it is
              wholly below the log start, or
              by time  : of an age > retention.ms, or
              by bytes : not needed to have retention.bytes left
    age     = now - min(newest timestamp, newest commit time)

Both clocks count, because either may lie. A timestamp in the future would keep its file for ever: the commit
time ends that. An old timestamp among new ones must not pull young records out: the newest speaks for all.
Records that are all old when they arrive leave at once, as in Kafka. A young file keeps all files behind it:
nothing vanishes from the middle of a log.

It knows the live files of one partition, as values; it must not know where they are or who removes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Literal, NamedTuple

from delta_log.model.types import DataFile

Why = Literal["below the log start", "time", "bytes"]

HIGH_WATERMARK = -1  # as in Kafka's DeleteRecords: everything there is now


class Removal(NamedTuple):
    """A file that goes, and why."""

    file: DataFile
    why: Why

    def __str__(self) -> str:
        return f"remove {_named(self.file)}: {self.why}"


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """Files to remove, oldest first, and the log start to write with them."""

    partition: int
    removals: tuple[Removal, ...]
    log_start: int
    new_log_start: int

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(removal.file.path for removal in self.removals)

    @property
    def count(self) -> int:
        return sum(removal.file.count for removal in self.removals)

    @property
    def size(self) -> int:
        return sum(removal.file.size for removal in self.removals)

    def __str__(self) -> str:
        head = (
            f"partition {self.partition}: remove {len(self.removals)} files, {self.count} records, "
            f"{self.size} bytes; {_start_moves(self.log_start, self.new_log_start)}"
        )
        return "\n".join([head, *(f"  {removal}" for removal in self.removals)])


@dataclass(frozen=True, slots=True)
class DeleteRecordsPlan:
    """A log start that moves by request; `rewrite` is the file it cuts, whose rows below it are to go."""

    partition: int
    remove: tuple[DataFile, ...]
    rewrite: DataFile | None
    log_start: int
    new_log_start: int

    def __str__(self) -> str:
        start = _start_moves(self.log_start, self.new_log_start)
        lines = [f"partition {self.partition}: remove {len(self.remove)} files; {start}"]
        lines += [f"  remove {_named(file)}" for file in self.remove]
        if self.rewrite is not None:
            lines.append(f"  rewrite {_named(self.rewrite)} without the offsets below {self.new_log_start}")
        return "\n".join(lines)


class OutsideLog(NamedTuple):
    """The asked offset is none of log start to end; the caller answers with the valid range."""

    before_offset: int
    log_start: int
    end: int


class Overdue(NamedTuple):
    """How far a partition is past its retention: zero, or retention does not run as it should.

    `age_ms` is for how long a file is there that should be gone: past retention.ms, or since the commit by which
    there were retention.bytes without it.
    """

    size: int
    age_ms: int


def plan_retention(
    files: Sequence[DataFile],
    *,
    log_start: int,
    end: int,
    retention_ms: int | None,
    retention_bytes: int | None,
    segment_ms: int,
    now_ms: int,
) -> RetentionPlan | None:
    """What to remove of one partition's files, given in offset order; None when nothing is due.

    A limit of None keeps for ever. A partition may become empty: its log start is then `end`. The log start
    never moves back, and it moves only when a limit, not an earlier deletion, removed something.
    """
    check_in_order(files)
    check_limits(retention_ms=retention_ms, retention_bytes=retention_bytes)
    below = _count_below(files, log_start)
    ages = file_ages(files, segment_ms=segment_ms, now_ms=now_ms)
    removals = [Removal(file, "below the log start") for file in files[:below]]
    left = sum(file.size for file in files[below:])
    for file, age in zip(files[below:], ages[below:], strict=True):
        left -= file.size
        if retention_ms is not None and age > retention_ms:
            removals.append(Removal(file, "time"))
        elif retention_bytes is not None and left >= retention_bytes:
            removals.append(Removal(file, "bytes"))
        else:
            break
    removed = len(removals)
    if removed == 0:
        return None
    kept_from = files[removed].base_offset if removed < len(files) else end
    return RetentionPlan(
        partition=files[0].partition,
        removals=tuple(removals),
        log_start=log_start,
        new_log_start=max(log_start, kept_from) if removed > below else log_start,
    )


def plan_delete_records(
    files: Sequence[DataFile], *, partition: int, log_start: int, end: int, before_offset: int
) -> DeleteRecordsPlan | OutsideLog:
    """Move the log start to `before_offset` (HIGH_WATERMARK = the end), by request of an administrator."""
    check_in_order(files)
    wanted = end if before_offset == HIGH_WATERMARK else before_offset
    if not log_start <= wanted <= end:
        return OutsideLog(before_offset, log_start, end)
    below = _count_below(files, wanted)
    cut = files[below] if below < len(files) and files[below].base_offset < wanted else None
    return DeleteRecordsPlan(
        partition=partition,
        remove=tuple(files[:below]),
        rewrite=cut,
        log_start=log_start,
        new_log_start=wanted,
    )


def measure_overdue(
    files: Sequence[DataFile],
    *,
    log_start: int,
    retention_ms: int | None,
    retention_bytes: int | None,
    segment_ms: int,
    now_ms: int,
) -> Overdue:
    """For metrics: what a plan would remove. It looks at few files more than are overdue, as all topics are asked.

    Files leave from the oldest end, so none is overdue for longer than the first.
    """
    below = _count_below(files, log_start)
    size, longest = sum(file.size for file in files[:below]), 0
    left = 0 if retention_bytes is None else sum(file.size for file in files[below:])
    for i in range(below, len(files)):
        left -= files[i].size
        by_bytes = retention_bytes is not None and left >= retention_bytes
        age = now_ms - min(files[i].max_timestamp_ms, _commit_of(files, i, segment_ms))
        by_time = retention_ms is not None and age > retention_ms
        if not (by_time or by_bytes):
            break
        if retention_ms is not None and by_time and i == below:
            longest = age - retention_ms
        if retention_bytes is not None and by_bytes and i == below:
            longest = max(longest, now_ms - _enough_since(files, i, retention_bytes, segment_ms))
        size += files[i].size
    return Overdue(size, longest)


def newest_commits(files: Sequence[DataFile], *, segment_ms: int) -> list[int]:
    """When the newest content of each file was committed.

    `modified_ms` tells of the *oldest* content: after a fold it says nothing of the newest, and taken for the
    age of all it would remove young records. The newest timestamp tells it instead, between the two certain
    bounds: not before the oldest content, and not after the next file's (commits are in order of offsets) nor
    more than `segment_ms` later (no file holds more).
    """
    return [_newest_commit(file, next_, segment_ms) for file, next_ in zip_longest(files, files[1:])]


def file_ages(files: Sequence[DataFile], *, segment_ms: int, now_ms: int) -> list[int]:
    """The age of each file's youngest record; the head of this page has the law."""
    commits = newest_commits(files, segment_ms=segment_ms)
    return [now_ms - min(file.max_timestamp_ms, at) for file, at in zip(files, commits, strict=True)]


def check_in_order(files: Sequence[DataFile]) -> None:
    """All planners rely on it: one partition, in order of offsets, no overlap."""
    for before, after in pairwise(files):
        if before.partition != after.partition:
            raise ValueError(f"files of partitions {before.partition} and {after.partition} in one plan")
        if after.base_offset <= before.last_offset:
            raise ValueError(f"{after.path} does not come after {before.path} in order of offsets")


def check_limits(**limits: int | None) -> None:
    """Kafka spells "no limit" as -1; taken for a number here, it would remove everything."""
    for name, limit in limits.items():
        if limit is not None and limit < 0:
            raise ValueError(f"{name}={limit} is no limit: pass None for none")


def _commit_of(files: Sequence[DataFile], i: int, segment_ms: int) -> int:
    return _newest_commit(files[i], files[i + 1] if i + 1 < len(files) else None, segment_ms)


def _enough_since(files: Sequence[DataFile], i: int, retention_bytes: int, segment_ms: int) -> int:
    """When the files behind this one first had as much as is to be kept."""
    behind, enough = 0, i
    while behind < retention_bytes:
        enough += 1
        behind += files[enough].size
    return _commit_of(files, enough, segment_ms)


def _newest_commit(file: DataFile, following: DataFile | None, segment_ms: int) -> int:
    latest = file.modified_ms + segment_ms
    if following is not None:
        latest = min(latest, following.modified_ms)
    return max(file.modified_ms, min(file.max_timestamp_ms, latest))


def _count_below(files: Sequence[DataFile], offset: int) -> int:
    return next((i for i, file in enumerate(files) if file.last_offset >= offset), len(files))


def _start_moves(log_start: int, new_log_start: int) -> str:
    if new_log_start == log_start:
        return f"log start stays {log_start}"
    return f"log start {log_start} -> {new_log_start}"


def _named(file: DataFile) -> str:
    return f"{file.path} (offsets {file.base_offset} to {file.last_offset}, {file.size} bytes)"
