"""Which small files become one, and what it costs over a partition's life."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from delta_log.maintenance.compaction.file_bins import MOST_UNFOLDED, plan_compaction, plan_fold
from delta_log.model.file_bin import Bin
from delta_log.model.types import DataFile

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_800_000_000_000
MANY = 1 << 40


def row_of_files(counts: Iterable[int], *, size: int = 100, step_ms: int = 1000) -> list[DataFile]:
    files: list[DataFile] = []
    offset = 0
    for i, count in enumerate(counts):
        at = NOW + i * step_ms
        files.append(DataFile(f"{offset}.parquet", 0, offset, offset + count - 1, count, size, at, at, at))
        offset += count
    return files


def folded(files: list[DataFile], *, fan_in: int = 4, max_bytes: int = MANY, segment_ms: int = DAY) -> list[int]:
    """How many files each bin takes."""
    return [len(b.inputs) for b in plan_fold(files, fan_in=fan_in, max_bytes=max_bytes, segment_ms=segment_ms)]


def compacted(files: list[DataFile], **changes: int | None) -> list[Bin]:
    given: dict[str, int | None] = {
        "segment_bytes": 1000,
        "segment_ms": DAY,
        "retention_ms": None,
        "min_age_ms": 0,
        "now_ms": NOW + 30 * DAY,
        **changes,
    }
    return plan_compaction(files, **given)


def merged(b: Bin) -> DataFile:
    return DataFile(
        f"{b.base_offset}-{b.last_offset}.parquet",
        b.partition,
        b.base_offset,
        b.last_offset,
        b.count,
        b.size,
        min(f.min_timestamp_ms for f in b.inputs),
        max(f.max_timestamp_ms for f in b.inputs),
        b.modified_ms,
    )


def test_fewer_files_than_the_fan_in_are_left_alone():
    assert folded(row_of_files([1] * 3)) == []
    assert folded([]) == []


def test_a_fan_in_of_equal_files_becomes_one():
    assert folded(row_of_files([1] * 4)) == [4]


def test_a_merge_that_completes_the_next_tier_takes_it_along_at_once():
    assert folded(row_of_files([4, 4, 4, 1, 1, 1, 1])) == [7]
    assert folded(row_of_files([4, 4, 1, 1, 1, 1])) == [4]


def test_a_large_old_file_is_not_rewritten_for_a_few_small_ones():
    assert folded(row_of_files([1000, 1, 1, 1])) == []
    assert folded(row_of_files([1000, 1, 1, 1, 1])) == [4]


def test_small_files_between_large_ones_are_merged_without_rewriting_those():
    assert folded(row_of_files([300, 1, 1, 300, 1, 1, 1])) == [2]


def test_a_window_full_by_bytes_becomes_one_file_and_is_then_left_alone():
    files = row_of_files([1] * 13, size=40)
    assert folded(files, fan_in=20, max_bytes=400) == [10]
    assert folded([replace(files[0], size=201), *files[1:2]], fan_in=2, max_bytes=400) == []


def test_a_part_that_would_become_large_takes_the_whole_window_along():
    files = row_of_files([1, 1, 1, 1, 9, 1, 1, 1, 1, 1, 1], size=1)
    assert folded(files, fan_in=2, max_bytes=11) == [11]
    assert folded(files, fan_in=2, max_bytes=12) == [4, 6]


def test_a_window_that_can_no_longer_grow_becomes_one_file():
    files = row_of_files([1] * 5, step_ms=HOUR)
    assert folded(files, fan_in=9, segment_ms=2 * HOUR) == [3]
    big = replace(files[2], size=300)
    assert folded([*files[:2], big, *files[3:]], fan_in=9, max_bytes=400) == [2]


def test_the_newest_file_settles_nothing_while_its_reach_is_a_guess():
    files = row_of_files([1] * 4)
    forged = [*files[:3], replace(files[3], max_timestamp_ms=2**62, min_timestamp_ms=2**62)]
    assert folded(forged, fan_in=4, segment_ms=HOUR) == []
    following = row_of_files([1] * 5)[4]
    assert folded([*forged, following], fan_in=5, segment_ms=HOUR) == [5]


def test_no_merge_spans_more_commit_time_than_a_segment_though_the_timestamps_are_equal():
    files = [replace(f, min_timestamp_ms=5, max_timestamp_ms=5) for f in row_of_files([1] * 6, step_ms=HOUR)]
    assert folded(files, fan_in=2, segment_ms=2 * HOUR) == [3, 3]


def test_a_fan_in_of_one_is_refused():
    with pytest.raises(ValueError, match="fan_in=1"):
        folded([], fan_in=1)


def life(
    commits: int, *, fan_in: int = 10, segment_ms: int = MANY, at: Callable[[int], int] | None = None
) -> tuple[int, int]:
    """Commit one row a second and fold after each: the most live files, and the most rewrites of any row."""
    files: list[DataFile] = []
    depth: dict[str, int] = {}
    peak = 0
    for i in range(commits):
        timestamp = at(i) if at else i * 1000
        files.append(DataFile(f"{i}", 0, i, i, 1, 3000, timestamp, timestamp, i * 1000))
        for b in plan_fold(files, fan_in=fan_in, max_bytes=MANY, segment_ms=segment_ms):
            output = merged(b)
            depth[output.path] = 1 + max(depth.get(f.path, 0) for f in b.inputs)
            start = files.index(b.inputs[0])
            files[start : start + len(b.inputs)] = [output]
        peak = max(peak, len(files))
    return peak, max(depth.values(), default=0)


def test_a_hundred_thousand_commits_never_leave_sixty_files_nor_rewrite_a_row_more_than_six_times():
    peak, rewrites = life(100_000)
    assert peak <= 9 * 5
    assert rewrites <= 6


@pytest.mark.parametrize("begin", [10, MOST_UNFOLDED // 2, MOST_UNFOLDED])
def test_however_fast_files_come_there_are_twice_the_unfolded_beside_those_that_a_fold_leaves(begin: int):
    """A fold begins at some time, and goes on until commits wait for it. What comes meanwhile is not in its plan."""
    files: list[DataFile] = []
    peak, settled, following = 0, 0, 0

    def commit_until(unfolded: int) -> None:
        nonlocal following
        while len(files) - settled < unfolded:
            files.append(DataFile(f"{following}", 0, following, following, 1, 3000, 0, 0, following))
            following += 1

    while following < 100_000:
        commit_until(begin)
        bins = plan_fold(files, fan_in=10, max_bytes=MANY, segment_ms=MANY)
        commit_until(MOST_UNFOLDED)
        peak = max(peak, len(files))
        for b in bins:
            start = files.index(b.inputs[0])
            files[start : start + len(b.inputs)] = [merged(b)]
        settled = len(files)
    assert MOST_UNFOLDED <= peak <= 2 * MOST_UNFOLDED + 9 * 5


@pytest.mark.parametrize(
    "at",
    [lambda i: 0 if i % 2 else 10**15, lambda i: 10**15, lambda i: (7919 * i) % 10**9],
    ids=["two broken clocks in turn", "a clock far ahead", "no order at all"],
)
def test_broken_clocks_cannot_stop_the_folding(at: Callable[[int], int]):
    peak, rewrites = life(5_000, segment_ms=HOUR, at=at)
    assert peak <= 9 * 4 + 3
    assert rewrites <= 5


def test_each_past_segment_ends_as_one_file():
    peak, rewrites = life(10_000, segment_ms=600_000)
    assert peak <= 10_000 // 600 + 9 * 3 + 1
    assert rewrites <= 4


def test_compaction_fills_files_up_to_the_segment_size():
    bins = compacted(row_of_files([1] * 25))
    assert [b.size for b in bins] == [1000, 1000, 500]
    assert [b.base_offset for b in bins] == [0, 10, 20]


def test_files_over_half_a_segment_are_large_enough():
    files = row_of_files([1] * 3, size=501)
    assert compacted(files) == []


def test_a_full_file_is_followed_by_what_still_fits_before_a_large_one():
    files = row_of_files([1] * 13)
    files[12] = replace(files[12], size=900)
    assert [b.size for b in compacted(files)] == [1000, 200]


def test_the_last_bin_waits_until_it_doubles_its_largest_file():
    files = row_of_files([1] * 6)
    files[0] = replace(files[0], size=450)
    assert compacted(files[:5]) == []
    assert [b.size for b in compacted(files)] == [950]


@pytest.mark.parametrize("sizes", [(400, 401), (401, 400)])
def test_two_equal_commits_are_merged_though_their_files_are_never_equal_to_the_byte(sizes: tuple[int, int]):
    files = [replace(file, size=size) for file, size in zip(row_of_files([1] * 2), sizes, strict=True)]
    assert [b.size for b in compacted(files)] == [801]


def test_the_live_edge_is_left_to_the_server():
    files = row_of_files([1] * 20)
    bins = compacted(files, min_age_ms=10_000, now_ms=files[-1].modified_ms)
    assert [(b.base_offset, b.last_offset) for b in bins] == [(0, 9)]


def test_without_a_live_edge_all_is_compacted_also_by_a_clock_that_is_behind():
    files = row_of_files([1] * 20)
    bins = compacted(files, now_ms=files[-1].modified_ms - 1000)
    assert [(b.base_offset, b.last_offset) for b in bins] == [(0, 9), (10, 19)]


def test_no_compacted_file_spans_more_than_half_the_retention():
    files = row_of_files([1] * 12, step_ms=HOUR)
    assert [len(b.inputs) for b in compacted(files, retention_ms=6 * HOUR)] == [4, 4, 4]
    assert [len(b.inputs) for b in compacted(files, segment_ms=2 * HOUR, retention_ms=DAY)] == [3, 3, 3, 3]


def test_compaction_run_by_run_rewrites_a_row_only_a_few_times():
    files: list[DataFile] = []
    depth: dict[str, int] = {}
    for now, new in enumerate(row_of_files([1] * 400, size=10)):
        files.append(new)
        for b in compacted(files, now_ms=NOW + DAY + now):
            output = merged(b)
            depth[output.path] = 1 + max(depth.get(f.path, 0) for f in b.inputs)
            start = files.index(b.inputs[0])
            files[start : start + len(b.inputs)] = [output]
    assert max(depth.values()) <= 7
    assert len(files) <= 8 + 6


def test_a_bin_says_exactly_what_it_would_do():
    only = compacted(row_of_files([2, 3]))[0]
    assert str(only) == (
        "partition 0: merge 2 files into one, offsets 0 to 4, 5 records, 200 bytes\n"
        "  0.parquet (100 bytes)\n"
        "  2.parquet (100 bytes)"
    )
    assert only.modified_ms == NOW
