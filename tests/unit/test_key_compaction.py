"""When a pass of cleanup.policy=compact is worth it, what it reads, and which records survive it."""

from dataclasses import replace

import pytest

from delta_log.maintenance.compaction.by_key import (
    KeyCompactionLimits,
    KeyCompactionPlan,
    TombstoneMark,
    leaving_offsets,
    plan_key_compaction,
    plan_rewrites,
)
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import DataFile
from tests.support.key_entries import Row, entries, surviving_offsets

HOUR = 3_600_000
NOW = 1_800_000_000_000
LIMITS = KeyCompactionLimits(
    min_compaction_lag_ms=0,
    max_compaction_lag_ms=None,
    min_dirty_ratio=0.5,
    delete_retention_ms=24 * HOUR,
    segment_ms=HOUR,
)


def file(base: int, last: int, *, age_ms: int = 0, size: int = 100) -> DataFile:
    at = NOW - age_ms
    return DataFile(f"{base}.parquet", 0, base, last, last - base + 1, size, at, at, at)


FOUR = [file(i * 10, i * 10 + 9, age_ms=(4 - i) * HOUR) for i in range(4)]


def planned(
    files: list[DataFile] = FOUR,
    *,
    log_start: int = 0,
    end: int = 40,
    dirty_from: int = 0,
    mark: TombstoneMark | None = None,
    now_ms: int = NOW,
    **limits: float | None,
) -> KeyCompactionPlan | None:
    return plan_key_compaction(
        files,
        log_start=log_start,
        end=end,
        dirty_from=dirty_from,
        mark=mark,
        limits=replace(LIMITS, **limits),
        now_ms=now_ms,
    )


def due(*args: list[DataFile], **changes) -> KeyCompactionPlan:
    plan = planned(*args, **changes)
    assert plan is not None
    return plan


def test_the_first_pass_reads_everything_as_dirty():
    plan = due()
    assert (plan.clean, plan.dirty, plan.horizon) == ((), tuple(FOUR), 40)


def test_a_later_pass_holds_the_clean_files_against_the_dirty_ones():
    plan = due(dirty_from=10)
    assert (plan.clean, plan.dirty) == ((FOUR[0],), tuple(FOUR[1:]))
    assert plan.inputs == tuple(FOUR)


def test_a_pass_is_worth_it_only_above_the_dirty_ratio():
    assert planned(dirty_from=20) is None
    assert due(dirty_from=20, min_dirty_ratio=0.49).why == "50% dirty"
    assert planned(dirty_from=40, min_dirty_ratio=0.0) is None
    assert planned([], end=0) is None


def test_the_maximum_lag_makes_a_pass_worth_it_whatever_the_ratio():
    assert planned(dirty_from=30, max_compaction_lag_ms=HOUR) is None
    assert due(dirty_from=30, max_compaction_lag_ms=HOUR - 1).why == "dirty for 3600000 ms"
    assert planned(dirty_from=30, max_compaction_lag_ms=1, min_compaction_lag_ms=HOUR) is None


def test_nothing_younger_than_the_minimum_lag_is_touched():
    plan = due(min_compaction_lag_ms=2 * HOUR + 1)
    assert (plan.dirty, plan.horizon) == (tuple(FOUR[:2]), 20)


def test_a_clock_ahead_stops_a_pass_only_for_the_minimum_lag():
    ahead = [replace(f, max_timestamp_ms=2**62) for f in FOUR]
    assert due(ahead).horizon == 40
    assert due(ahead, min_compaction_lag_ms=2 * HOUR).horizon == 20


def test_a_file_that_reaches_over_the_end_is_not_touched():
    assert due(end=39).horizon == 30


def test_a_file_below_the_log_start_is_not_read():
    assert due(log_start=10).dirty == tuple(FOUR[1:])


def test_a_file_folded_of_clean_and_dirty_records_is_dirty():
    assert due(dirty_from=15).dirty == tuple(FOUR[1:])


def test_marks_beyond_the_end_are_of_another_life_and_everything_is_dirty():
    assert due(dirty_from=41).dirty == tuple(FOUR)
    assert due(dirty_from=10, mark=TombstoneMark(41, 0)).dirty == tuple(FOUR)


def test_the_first_pass_sets_a_mark_and_drops_no_tombstone():
    plan = due()
    assert plan.tombstones_below == 0
    assert plan.mark_after(NOW + 5) == TombstoneMark(40, NOW + 5)


def test_a_mark_stands_still_for_the_delete_retention_and_then_moves_on():
    mark = TombstoneMark(10, NOW)
    plan = due(dirty_from=10, mark=mark, now_ms=NOW + 24 * HOUR)
    assert (plan.tombstones_below, plan.mark_after(NOW + 99)) == (0, mark)
    plan = due(dirty_from=10, mark=mark, now_ms=NOW + 24 * HOUR + 1)
    assert plan.tombstones_below == 10
    assert plan.mark_after(NOW + 99) == TombstoneMark(40, NOW + 99)


def test_a_plan_says_exactly_what_it_would_do():
    assert str(due(FOUR[:2], end=20, dirty_from=10, min_dirty_ratio=0.1)) == (
        "partition 0: compact by key below offset 20 (50% dirty), 2 files, 200 bytes; "
        "drop tombstones below offset 0\n"
        "  clean 0.parquet (100 bytes)\n"
        "  dirty 10.parquet (100 bytes)"
    )


def test_the_limits_are_the_topics_settings():
    config = TopicConfig.of(
        {"min.compaction.lag.ms": 1, "max.compaction.lag.ms": 2, "delete.retention.ms": 3, "segment.ms": 4}
    )
    assert KeyCompactionLimits.of(config) == KeyCompactionLimits(1, 2, 0.5, 3, 4)


def kept(*rows: Row, dirty_from: int = 0, tombstones_below: int = 0) -> list[int]:
    return surviving_offsets(rows, dirty_from=dirty_from, tombstones_below=tombstones_below)


def test_only_the_newest_record_of_a_key_survives_at_its_own_offset():
    assert kept((0, b"a", b"1"), (1, b"b", b"1"), (2, b"a", b"2"), (5, b"c", b"")) == [1, 2, 5]


def test_a_clean_record_goes_only_if_a_dirty_one_has_its_key():
    assert kept((0, b"a", b"1"), (1, b"b", b"1"), (2, b"a", b"2"), dirty_from=2) == [1, 2]


def test_an_empty_key_is_a_key_and_a_null_key_is_none():
    assert kept((0, b"", b"1"), (1, None, b"1"), (2, b"", b"2"), (3, None, None)) == [1, 2, 3]


def test_a_tombstone_takes_its_key_along_and_stays_until_its_time_has_come():
    rows: list[Row] = [(0, b"a", None), (1, b"b", b"1"), (2, b"b", None)]
    assert kept(*rows, dirty_from=2) == [0, 2]
    assert kept(*rows, dirty_from=2, tombstones_below=2) == [2]


def test_nothing_dirty_leaves_everything_as_it_is():
    assert kept((0, b"a", b"1"), (1, b"a", b"2"), dirty_from=2) == [0, 1]
    assert kept() == []


def test_entries_come_in_any_order():
    rows: list[Row] = [(2, b"a", b"2"), (0, b"a", b"1"), (1, b"a", None)]
    assert leaving_offsets(entries(rows, dirty_from=0)).tolist() == [0, 1]


def rewrites(
    files: list[DataFile], leaving: list[int], *, segment_bytes: int = 1000, retention_ms: int | None = None
) -> list[list[int]]:
    planned = plan_rewrites(
        files, leaving, segment_bytes=segment_bytes, segment_ms=10 * HOUR, retention_ms=retention_ms
    )
    return [[each.base_offset for each in group] for group in planned]


def test_a_file_that_nothing_leaves_stays_and_nothing_is_written_across_it():
    assert rewrites(FOUR, [1, 1, 0, 1]) == [[0, 10], [30]]
    assert rewrites(FOUR, [0, 0, 0, 0]) == []


@pytest.mark.parametrize(
    ("leaving", "groups"),
    [([1, 1, 1, 1], [[0, 10], [20, 30]]), ([9, 9, 9, 9], [[0, 10, 20, 30]]), ([10, 10, 1, 1], [[0, 10, 20, 30]])],
)
def test_files_go_together_as_far_as_what_is_left_of_them_fits(leaving: list[int], groups: list[list[int]]):
    assert rewrites(FOUR, leaving, segment_bytes=190) == groups


def test_of_much_that_leaves_no_more_is_read_for_one_file_than_a_task_should():
    many = [file(i * 10, i * 10 + 9, age_ms=HOUR) for i in range(20)]
    assert list(map(len, rewrites(many, [10] * 20, segment_bytes=100))) == [8, 8, 4]


def test_no_file_is_made_that_spans_more_than_half_of_the_retention():
    assert rewrites(FOUR, [1] * 4, retention_ms=4 * HOUR) == [[0, 10, 20], [30]]
    assert rewrites(FOUR, [1] * 4, retention_ms=1) == [[0], [10], [20], [30]]
