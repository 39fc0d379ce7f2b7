"""Plans which neighbouring files are merged: the server's quick folds, and the large compaction of a Spark job.

    window  = the next neighbours that may become one file: none is large, and together they are within the limit
              of bytes and the span of log time
    settled = a window that can never grow again, because a file that may not join it follows

Log time is the clock of retention: the maximum over the files up to here of min(newest timestamp, commit time), so
it never runs backwards. With timestamps in order it is their span. A late record or a broken clock cannot move
it, and so cannot keep small files apart until there are too many of them.

It knows the live files of one partition, as values. It must not know which process merges them; a merge never
changes offsets, their order or records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from typing import Final, NamedTuple

from delta_log.maintenance.retention import check_in_order, newest_commits
from delta_log.model.file_bin import Bin
from delta_log.model.types import DataFile

#: Files that may be added to a topic between folds: beyond that, its next commit waits for a fold. As many may be added
#: while a fold runs, so there are at most twice as many besides those that a fold leaves.
MOST_UNFOLDED: Final = 400


class _Run(NamedTuple):
    """The range files[start:stop] with its number of rows: one file, or several that will become one."""

    start: int
    stop: int
    rows: int


def plan_fold(files: Sequence[DataFile], *, fan_in: int, max_bytes: int, segment_ms: int) -> list[Bin]:
    """Plan the server's fold of small files: linear in the live files, cheap enough for one call a second.

    The tier of a file is floor(log of its rows to the base fan_in). A file's class is the highest tier from
    it to the end of its window: classes fall towards the young end, and each is a run of neighbours.

    - A class of fan_in files or more becomes one file, if that lifts it a tier; else each run between its
      highest files becomes one file.
    - A settled window becomes one file, whatever its tiers; so does a window of which a part would become large,
      because that would settle the rest.
    - Files over max_bytes/2 are left alone, and a single file is never rewritten.
    - The plan is complete: after the merge there is nothing left to do.

    So a window ends with fewer than 2 * fan_in files of each tier (with equal commits: fewer than fan_in). A
    row is rewritten once per tier and once when its window settles; more often only if commits of very
    different sizes alternate.
    """
    if fan_in < 2:  # noqa: PLR2004 - one file is no merge
        raise ValueError(f"fan_in={fan_in}: it takes two files to merge")
    bins: list[Bin] = []
    for window, settled in _windows(files, limit=max_bytes, span_ms=segment_ms, segment_ms=segment_ms):
        pieces = [window] if settled else [window[run.start : run.stop] for run in _tiered(window, fan_in)]
        if any(sum(file.size for file in piece) > max_bytes // 2 for piece in pieces):
            pieces = [window]
        bins += [Bin(tuple(piece)) for piece in pieces if len(piece) > 1]
    return bins


def plan_compaction(
    files: Sequence[DataFile],
    *,
    segment_bytes: int,
    segment_ms: int,
    retention_ms: int | None,
    min_age_ms: int,
    now_ms: int,
) -> list[Bin]:
    """Plan the Spark job's merge of folded files into files of up to segment_bytes.

    - Files with content committed less than min_age_ms ago are the live edge and left to the server. With min_age_ms=0
      there is no live edge, even if a commit time lies in the future: a store may give times in whole seconds.
    - Files over segment_bytes/2 are large enough and left alone.
    - No output spans more than min(segment_ms, retention_ms / 2): retention removes whole files.
    - Every settled window becomes one file: a file that stays small lies alone between large ones or long pauses.
    - The window at the young end waits until it is nearly twice its largest file: so a row is written only
      a few times (the log of segment_bytes), however often the job runs.
    """
    commits = newest_commits(files, segment_ms=segment_ms)
    old = next((i for i, at in enumerate(commits) if max(now_ms - at, 0) < min_age_ms), len(files))
    span_ms = segment_ms if retention_ms is None else min(segment_ms, retention_ms // 2)
    windows = _windows(files[:old], limit=segment_bytes, span_ms=span_ms, segment_ms=segment_ms)
    return [Bin(tuple(window)) for window, settled in windows if len(window) > 1 and (settled or _doubles(window))]


def _doubles(window: Sequence[DataFile]) -> bool:
    """Check that a window is nearly twice its largest file: two equal commits never have exactly equal sizes."""
    return 63 * max(file.size for file in window) <= 32 * sum(file.size for file in window)


def _windows(
    files: Sequence[DataFile], *, limit: int, span_ms: int, segment_ms: int
) -> Iterator[tuple[list[DataFile], bool]]:
    """The windows in offset order, each with whether it is settled.

    A file over half the limit is large and left alone. A window that the limit closed becomes such a file.
    The span of the newest file settles nothing: it is certain only once the next file has come.
    """
    check_in_order(files)
    commits = newest_commits(files, segment_ms=segment_ms)
    window: list[DataFile] = []
    began = log_time = size = 0
    for i, (file, committed) in enumerate(zip(files, commits, strict=True)):
        newest = min(file.max_timestamp_ms, committed)
        before = log_time if i else min(file.min_timestamp_ms, newest)
        log_time = max(before, newest)
        large = file.size > limit // 2
        if window:
            full = large or size + file.size > limit
            span = max(log_time - began, committed - window[0].modified_ms)
            if full or span > span_ms:
                yield window, full or i < len(files) - 1
                window = []
        if large:
            continue
        if not window:
            began, size = min(log_time, max(before, file.min_timestamp_ms)), 0
        window.append(file)
        size += file.size
    if window:
        yield window, False


def _tiered(window: Sequence[DataFile], fan_in: int) -> list[_Run]:
    """Merge class by class until nothing changes: a class that became one file may complete the next."""
    runs = [_Run(i, i + 1, file.count) for i, file in enumerate(window)]
    while True:
        tiers = [_tier(run.rows, fan_in) for run in runs]
        classes = list(accumulate(reversed(tiers), max))[::-1]
        merged: list[_Run] = []
        for tier, members in groupby(zip(classes, runs, strict=True), key=lambda member: member[0]):
            merged += _merged([run for _, run in members], tier, fan_in)
        if len(merged) == len(runs):
            return runs
        runs = merged


def _merged(runs: list[_Run], tier: int, fan_in: int) -> list[_Run]:
    """Merge a class. Rewriting its highest files without lifting them a tier would be useless."""
    if len(runs) < fan_in:
        return runs
    if sum(run.rows for run in runs) >= fan_in ** (tier + 1):
        return [_joined(runs)]
    result: list[_Run] = []
    for lower, group in groupby(runs, key=lambda run: _tier(run.rows, fan_in) < tier):
        neighbours = list(group)
        result += [_joined(neighbours)] if lower else neighbours
    return result


def _joined(runs: Sequence[_Run]) -> _Run:
    return _Run(runs[0].start, runs[-1].stop, sum(run.rows for run in runs))


def _tier(rows: int, fan_in: int) -> int:
    tier = 0
    while rows >= fan_in:
        rows //= fan_in
        tier += 1
    return tier
