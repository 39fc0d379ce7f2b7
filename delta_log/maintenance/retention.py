"""Plans which files leave a partition: by age, by size, and by requests to delete records.

    removed = a prefix of the live files, whole files only: each, as long as it is
              wholly below the log start, or
              by time  : of an age > retention.ms, or
              by bytes : not needed to keep retention.bytes
    age     = now - min(newest timestamp, newest commit time)

Both clocks count, because either may be wrong. A timestamp in the future would keep its file for ever: the commit
time prevents that. An old timestamp among new ones must not remove young records: the newest counts for all.
Records that are all old on arrival leave at once, as in Kafka. A young file keeps all later files:
nothing leaves from the middle of a log.

It knows the live files of one partition, as values; it must not know where they are or which process removes them.
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
    """A file to remove, with the reason."""

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
    """A log start that moves by request; `rewrite` is the file that it cuts, which loses its rows below it."""

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
    """The requested offset is outside log start to end; the caller answers with the valid range."""

    before_offset: int
    log_start: int
    end: int


class Overdue(NamedTuple):
    """Data of a partition that is past its retention: zero unless retention fails to run.

    `age_ms` is how long the oldest file should have been gone: past retention.ms, or since the commit after which
    retention.bytes were there without it.
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
    """Plan removals from one partition's files, given in offset order; None if nothing is due.

    A limit of None keeps for ever. A partition may become empty: its log start is then `end`. The log start
    never moves back, and it moves only if a limit removes something, not an earlier deletion.
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
    """Measure, for metrics, what a plan would remove. Reads few files beyond the overdue ones: it runs for all topics.

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
    """Commit time of each file's newest content, estimated.

    `modified_ms` is the commit time of the *oldest* content: after a fold it does not give the newest, and as the
    age of all content it would remove young records. The newest timestamp is used instead, within certain
    bounds: not before the oldest content, not after the next file's (commits are in order of offsets), and not
    more than `segment_ms` later (no file spans more).
    """
    return [_newest_commit(file, next_, segment_ms) for file, next_ in zip_longest(files, files[1:])]


def file_ages(files: Sequence[DataFile], *, segment_ms: int, now_ms: int) -> list[int]:
    """The age of each file's youngest record, by the rule in the module's docstring."""
    commits = newest_commits(files, segment_ms=segment_ms)
    return [now_ms - min(file.max_timestamp_ms, at) for file, at in zip(files, commits, strict=True)]


def check_in_order(files: Sequence[DataFile]) -> None:
    """Check what all planners rely on: one partition, in order of offsets, no overlap."""
    for before, after in pairwise(files):
        if before.partition != after.partition:
            raise ValueError(f"files of partitions {before.partition} and {after.partition} in one plan")
        if after.base_offset <= before.last_offset:
            raise ValueError(f"{after.path} does not come after {before.path} in order of offsets")


def check_limits(**limits: int | None) -> None:
    """Refuse negative limits: Kafka writes "no limit" as -1, which as a number here would remove everything."""
    for name, limit in limits.items():
        if limit is not None and limit < 0:
            raise ValueError(f"{name}={limit} is no limit: pass None for none")


def _commit_of(files: Sequence[DataFile], i: int, segment_ms: int) -> int:
    return _newest_commit(files[i], files[i + 1] if i + 1 < len(files) else None, segment_ms)


def _enough_since(files: Sequence[DataFile], i: int, retention_bytes: int, segment_ms: int) -> int:
    """Time of the commit after which the files behind this one had `retention_bytes`."""
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
