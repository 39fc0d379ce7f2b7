"""What retention and deletion remove, and where the log then starts."""

from dataclasses import replace

import pytest

from delta_log.maintenance.retention import (
    HIGH_WATERMARK,
    DeleteRecordsPlan,
    OutsideLog,
    Overdue,
    RetentionPlan,
    measure_overdue,
    plan_delete_records,
    plan_retention,
)
from delta_log.model.types import DataFile

HOUR = 3_600_000
DAY = 24 * HOUR
NOW = 1_800_000_000_000


def file(base: int, last: int, *, age_ms: int = 0, size: int = 100, **changes: int) -> DataFile:
    then = NOW - age_ms
    made = DataFile(f"partition=0/{base:020}-x.parquet", 0, base, last, last - base + 1, size, then, then, then)
    return replace(made, **changes)


def planned(files: list[DataFile], **changes: int | None) -> RetentionPlan | None:
    given: dict[str, int | None] = {
        "log_start": files[0].base_offset if files else 0,
        "end": files[-1].next_offset if files else 0,
        "retention_ms": None,
        "retention_bytes": None,
        "segment_ms": HOUR,
        "now_ms": NOW,
        **changes,
    }
    return plan_retention(files, **given)


def due(files: list[DataFile], **changes: int | None) -> RetentionPlan:
    plan = planned(files, **changes)
    assert plan is not None
    return plan


THREE = [file(0, 9, age_ms=3 * DAY), file(10, 19, age_ms=2 * DAY), file(20, 29, age_ms=DAY)]


def test_without_limits_everything_is_kept():
    assert planned(THREE) is None
    assert planned([]) is None


def test_files_older_than_the_limit_go_and_the_log_starts_at_the_first_kept():
    plan = due(THREE, retention_ms=36 * HOUR)
    assert plan.paths == tuple(f.path for f in THREE[:2])
    assert [removal.why for removal in plan.removals] == ["time", "time"]
    assert (plan.count, plan.size, plan.new_log_start) == (20, 200, 20)


def test_a_file_exactly_as_old_as_the_limit_is_kept():
    assert planned(THREE[2:], retention_ms=DAY) is None
    assert planned(THREE[2:], retention_ms=DAY - 1) is not None


def test_a_young_file_keeps_the_old_ones_behind_it():
    files = [file(0, 9, age_ms=DAY), file(10, 19, age_ms=3 * DAY), file(20, 29)]
    assert planned(files, retention_ms=2 * DAY) is None


def test_an_idle_partition_becomes_empty_and_starts_at_its_end():
    plan = due(THREE, retention_ms=0, end=35)
    assert len(plan.removals) == 3
    assert plan.new_log_start == 35


def test_a_timestamp_in_the_future_cannot_keep_a_file_for_ever():
    forged = [replace(f, max_timestamp_ms=2**62) for f in THREE]
    assert len(due(forged, retention_ms=36 * HOUR).removals) == 2
    assert len(due(forged, retention_ms=36 * HOUR, now_ms=NOW + 2 * DAY).removals) == 3


def test_one_old_timestamp_does_not_take_young_records_along():
    assert planned([file(0, 9, min_timestamp_ms=0)], retention_ms=HOUR) is None


def test_records_that_are_all_old_when_they_arrive_leave_at_once():
    backfill = file(0, 9, min_timestamp_ms=0, max_timestamp_ms=NOW - DAY)
    assert due([backfill], retention_ms=HOUR).new_log_start == 10


def test_the_young_part_of_a_folded_file_is_not_removed_with_its_old_part():
    folded = file(0, 9, age_ms=3 * HOUR, max_timestamp_ms=NOW - HOUR)
    following = file(10, 10, age_ms=HOUR // 2)
    assert planned([folded, following], retention_ms=2 * HOUR, segment_ms=6 * HOUR) is None
    assert planned([folded], retention_ms=2 * HOUR, segment_ms=6 * HOUR) is None


def test_bytes_go_from_the_oldest_end_but_never_under_the_limit():
    assert due(THREE, retention_bytes=200).paths == (THREE[0].path,)
    assert due(THREE, retention_bytes=199).paths == (THREE[0].path,)
    assert planned(THREE, retention_bytes=201) is None
    plan = due(THREE, retention_bytes=0)
    assert [removal.why for removal in plan.removals] == ["bytes"] * 3
    assert plan.new_log_start == 30


def test_the_longer_of_both_prefixes_goes_with_a_reason_for_each_file():
    plan = due(THREE, retention_ms=60 * HOUR, retention_bytes=100)
    assert [removal.why for removal in plan.removals] == ["time", "bytes"]
    plan = due(THREE, retention_ms=36 * HOUR, retention_bytes=200)
    assert [removal.why for removal in plan.removals] == ["time", "time"]


def test_files_below_the_log_start_go_whatever_the_limits_and_it_stays():
    plan = due(THREE, log_start=15)
    assert [removal.why for removal in plan.removals] == ["below the log start"]
    assert plan.new_log_start == 15
    young = [file(0, 9), *THREE[1:]]
    assert len(due(young, log_start=10, retention_ms=36 * HOUR).removals) == 2


def test_files_below_the_log_start_do_not_count_as_kept_bytes():
    plan = due(THREE, log_start=10, retention_bytes=200)
    assert [removal.why for removal in plan.removals] == ["below the log start"]


def test_the_log_start_never_moves_back():
    assert due(THREE, log_start=25, retention_ms=36 * HOUR).new_log_start == 25


def test_kafkas_minus_one_is_refused_rather_than_taken_for_a_limit():
    with pytest.raises(ValueError, match="retention_ms=-1"):
        planned(THREE, retention_ms=-1)
    with pytest.raises(ValueError, match="retention_bytes=-1"):
        planned(THREE, retention_bytes=-1)


def test_files_out_of_order_or_of_two_partitions_are_refused():
    with pytest.raises(ValueError, match="does not come after"):
        planned(THREE[::-1], retention_ms=0)
    with pytest.raises(ValueError, match="partitions 0 and 7"):
        planned([THREE[0], replace(THREE[1], partition=7)], retention_ms=0)


def test_a_plan_says_exactly_what_it_would_do():
    assert str(due(THREE, retention_ms=60 * HOUR)) == (
        "partition 0: remove 1 files, 10 records, 100 bytes; log start 0 -> 10\n"
        "  remove partition=0/00000000000000000000-x.parquet (offsets 0 to 9, 100 bytes): time"
    )
    assert "log start stays 15" in str(due(THREE, log_start=15))


def measured(files: list[DataFile], **changes: int | None) -> Overdue:
    return measure_overdue(
        files,
        **{"log_start": 0, "retention_ms": None, "retention_bytes": None, "segment_ms": HOUR, "now_ms": NOW, **changes},
    )


def test_nothing_is_overdue_within_the_limits():
    assert measured([]) == measured(THREE) == Overdue(0, 0)
    assert measured(THREE, retention_ms=3 * DAY, retention_bytes=300) == Overdue(0, 0)


def test_a_file_is_overdue_since_it_outlived_the_limit():
    assert measured(THREE, retention_ms=36 * HOUR) == Overdue(200, 36 * HOUR)


def test_a_file_is_overdue_since_there_was_enough_without_it():
    assert measured(THREE, retention_bytes=200) == Overdue(100, DAY)
    assert measured(THREE, retention_bytes=100) == Overdue(200, 2 * DAY)
    assert measured(THREE, retention_bytes=0) == Overdue(300, 3 * DAY)
    assert measured(THREE, retention_bytes=100, log_start=10) == Overdue(200, DAY), "the first is gone for readers"


def deleted(before_offset: int, *, log_start: int = 0) -> DeleteRecordsPlan | OutsideLog:
    return plan_delete_records(THREE, partition=0, log_start=log_start, end=30, before_offset=before_offset)


def test_deleting_records_names_the_file_that_the_new_start_cuts():
    plan = deleted(15)
    assert isinstance(plan, DeleteRecordsPlan)
    assert (plan.remove, plan.rewrite, plan.new_log_start) == ((THREE[0],), THREE[1], 15)
    assert str(plan) == (
        "partition 0: remove 1 files; log start 0 -> 15\n"
        "  remove partition=0/00000000000000000000-x.parquet (offsets 0 to 9, 100 bytes)\n"
        "  rewrite partition=0/00000000000000000010-x.parquet (offsets 10 to 19, 100 bytes) "
        "without the offsets below 15"
    )


def test_deleting_records_at_the_edge_of_a_file_rewrites_none():
    plan = deleted(10)
    assert isinstance(plan, DeleteRecordsPlan)
    assert (plan.remove, plan.rewrite) == ((THREE[0],), None)


def test_deleting_up_to_the_high_watermark_empties_the_partition():
    plan = deleted(HIGH_WATERMARK)
    assert isinstance(plan, DeleteRecordsPlan)
    assert (len(plan.remove), plan.rewrite, plan.new_log_start) == (3, None, 30)


@pytest.mark.parametrize("before_offset", [-2, 4, 31])
def test_an_offset_outside_the_log_is_answered_with_the_valid_range(before_offset: int):
    assert deleted(before_offset, log_start=5) == OutsideLog(before_offset, 5, 30)


def test_deleting_from_a_partition_without_files_still_moves_its_start():
    plan = plan_delete_records([], partition=4, log_start=3, end=9, before_offset=9)
    assert isinstance(plan, DeleteRecordsPlan)
    assert (plan.partition, plan.new_log_start) == (4, 9)
