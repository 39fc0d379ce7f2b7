"""The laws of retention, folding and compaction, over any sizes, gaps and clocks."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from delta_log.maintenance.compaction.file_bins import plan_compaction, plan_fold
from delta_log.maintenance.retention import DeleteRecordsPlan, OutsideLog, plan_delete_records, plan_retention
from delta_log.model.file_bin import Bin
from delta_log.model.types import DataFile
from tests.support.data_files import merged

NOW = 1_000_000


@st.composite
def partitions(draw: st.DrawFn, *, honest: bool = False, max_size: int = 400) -> list[DataFile]:
    """Files in offset order with holes between them; commit times rise, timestamps need not unless honest."""
    files: list[DataFile] = []
    offset = at = 0
    for _ in range(draw(st.integers(0, 25))):
        offset += draw(st.sampled_from([0, 0, 0, 7]))
        at += draw(st.integers(0, 300))
        count = draw(st.sampled_from([1, 1, 1, 2, 9, 100, 1000]))
        size = draw(st.integers(1, max_size))
        stamps = [at, at] if honest else sorted(draw(st.tuples(*[st.integers(0, 2 * NOW)] * 2)))
        files.append(DataFile(f"{offset}", 0, offset, offset + count - 1, count, size, *stamps, at))
        offset += count
    return files


def after(files: list[DataFile], bins: list[Bin]) -> list[DataFile]:
    gone = {file.path for b in bins for file in b.inputs}
    return sorted(
        [*(f for f in files if f.path not in gone), *(merged(b.inputs) for b in bins)],
        key=lambda f: f.base_offset,
    )


LIMIT = st.none() | st.integers(0, 5000)


@st.composite
def retention_cases(draw: st.DrawFn) -> tuple[list[DataFile], dict[str, int | None]]:
    files = draw(partitions())
    last = files[-1].next_offset if files else 0
    end = last + draw(st.integers(0, 5))
    return files, {
        "log_start": draw(st.integers(0, end)),
        "end": end,
        "retention_ms": draw(LIMIT),
        "retention_bytes": draw(LIMIT),
        "segment_ms": draw(st.integers(0, 1000)),
        "now_ms": draw(st.integers(0, 10_000)),
    }


@given(retention_cases())
def test_retention_removes_a_prefix_and_the_log_start_never_moves_back(case):
    files, given_ = case
    plan = plan_retention(files, **given_)
    if plan is None:
        return
    removed = [removal.file for removal in plan.removals]
    assert removed == files[: len(removed)]
    assert given_["log_start"] <= plan.new_log_start <= given_["end"]
    assert all(f.last_offset < plan.new_log_start for f in removed)
    assert all(f.last_offset >= plan.new_log_start for f in files[len(removed) :])
    if len(removed) == len(files) and plan.removals[-1].why != "below the log start":
        assert plan.new_log_start == given_["end"]


@given(retention_cases())
def test_retention_by_bytes_never_goes_under_its_limit_and_leaves_less_than_one_file_too_much(case):
    files, given_ = case
    limit = given_["retention_bytes"]
    plan = plan_retention(files, **{**given_, "retention_ms": None})
    removals = plan.removals if plan else ()
    kept = files[len(removals) :]
    if limit is None:
        assert all(removal.why == "below the log start" for removal in removals)
        return
    if any(removal.why == "bytes" for removal in removals):
        assert sum(f.size for f in kept) >= limit
    if kept:
        assert sum(f.size for f in kept[1:]) < limit


@given(retention_cases())
def test_planned_again_after_a_removal_retention_finds_nothing(case):
    files, given_ = case
    plan = plan_retention(files, **given_)
    if plan is not None:
        left = files[len(plan.removals) :]
        assert plan_retention(left, **{**given_, "log_start": plan.new_log_start}) is None


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(-500, 3000)), min_size=1, max_size=25),
    st.lists(st.integers(1, 6), min_size=25, max_size=25),
    st.integers(0, 4000),
    st.integers(0, 3000),
)
def test_no_record_younger_than_the_limit_is_removed_even_from_folded_files(commits, groups, passed, retention_ms):
    """A record's age counts from its timestamp or its commit, whichever is earlier."""
    segment_ms = 1000
    rows: list[DataFile] = []
    at = 10_000
    for i, (gap, skew) in enumerate(commits):
        at += gap
        rows.append(DataFile(f"{i}", 0, i, i, 1, 10, at + skew, at + skew, at))
    files: list[DataFile] = []
    left = list(rows)
    for group in groups:
        taken = [f for f in left[:group] if f.modified_ms - left[0].modified_ms <= segment_ms]
        left = left[len(taken) :]
        files += [merged(taken)] if taken else []
    plan = plan_retention(
        files,
        log_start=0,
        end=len(rows),
        retention_ms=retention_ms,
        retention_bytes=None,
        segment_ms=segment_ms,
        now_ms=at + passed,
    )
    for row in rows[: plan.new_log_start if plan else 0]:
        file = next(f for f in files if f.base_offset <= row.base_offset <= f.last_offset)
        youngest = max(min(r.max_timestamp_ms, r.modified_ms) for r in rows[file.base_offset : file.last_offset + 1])
        assert at + passed - youngest > retention_ms


@given(partitions(), st.integers(0, 500))
def test_no_clock_keeps_a_file_longer_than_its_segment_and_the_limit_after_its_commit(files, retention_ms):
    if not files:
        return
    plan = plan_retention(
        files,
        log_start=0,
        end=files[-1].next_offset,
        retention_ms=retention_ms,
        retention_bytes=None,
        segment_ms=100,
        now_ms=files[-1].modified_ms + 100 + retention_ms + 1,
    )
    assert plan is not None
    assert len(plan.removals) == len(files)


@given(partitions(), st.integers(-3, 4000), st.integers(0, 50))
def test_deleting_records_removes_what_is_wholly_below_and_cuts_at_most_one_file(files, before, log_start):
    end = max(log_start, files[-1].next_offset if files else 0)
    plan = plan_delete_records(files, partition=0, log_start=log_start, end=end, before_offset=before)
    wanted = end if before == -1 else before
    if not log_start <= wanted <= end:
        assert plan == OutsideLog(before, log_start, end)
        return
    assert isinstance(plan, DeleteRecordsPlan)
    assert plan.new_log_start == wanted
    assert list(plan.remove) == [f for f in files if f.last_offset < wanted]
    assert [plan.rewrite] * (plan.rewrite is not None) == [f for f in files if f.base_offset < wanted <= f.last_offset]


def check_bins(files: list[DataFile], bins: list[Bin], limit: int, span_ms: int) -> None:
    places = [[files.index(f) for f in b.inputs] for b in bins]
    for place in places:
        assert len(place) >= 2
        assert place == list(range(place[0], place[-1] + 1))
    assert all(before[-1] < following[0] for before, following in pairwise(places))
    for b in bins:
        assert b.size <= limit
        assert all(2 * f.size <= limit for f in b.inputs)
        assert b.inputs[-1].modified_ms - b.inputs[0].modified_ms <= span_ms


FOLDS = {
    "fan_in": st.integers(2, 6),
    "max_bytes": st.integers(1, 3000),
    "segment_ms": st.integers(0, 3000),
}


@given(partitions(), st.fixed_dictionaries(FOLDS))
def test_folds_are_neighbours_in_order_disjoint_and_within_bounds(files, limits):
    check_bins(files, plan_fold(files, **limits), limits["max_bytes"], limits["segment_ms"])


@given(partitions(honest=True), st.fixed_dictionaries(FOLDS))
def test_where_timestamps_rise_no_fold_spans_more_than_a_segment(files, limits):
    for b in plan_fold(files, **limits):
        assert b.inputs[-1].max_timestamp_ms - b.inputs[0].min_timestamp_ms <= limits["segment_ms"]


@given(partitions(honest=True), st.fixed_dictionaries(FOLDS))
def test_planned_again_after_a_fold_there_is_nothing_to_do(files, limits):
    assert plan_fold(after(files, plan_fold(files, **limits)), **limits) == []


@given(partitions(max_size=1), st.integers(2, 6))
def test_after_a_fold_fewer_than_two_fan_ins_of_files_are_left_for_each_tier(files, fan_in):
    left = after(files, plan_fold(files, fan_in=fan_in, max_bytes=10**9, segment_ms=10**9))
    tiers, count = 1, max((f.count for f in left), default=0)
    while count >= fan_in:
        tiers, count = tiers + 1, count // fan_in
    assert len(left) < 2 * fan_in * tiers


@st.composite
def compaction_limits(draw: st.DrawFn) -> dict[str, int | None]:
    return {
        "segment_bytes": draw(st.integers(1, 3000)),
        "segment_ms": draw(st.integers(0, 3000)),
        "retention_ms": draw(st.none() | st.integers(0, 6000)),
        "min_age_ms": draw(st.integers(0, 1000)),
        "now_ms": draw(st.integers(0, 8000)),
    }


@given(partitions(), compaction_limits())
def test_compacted_files_are_neighbours_in_order_disjoint_and_within_bounds(files, limits):
    bins = plan_compaction(files, **limits)
    retention_ms = limits["retention_ms"]
    span_ms = limits["segment_ms"] if retention_ms is None else min(limits["segment_ms"], retention_ms // 2)
    check_bins(files, bins, limits["segment_bytes"], span_ms)
    for b in bins:
        assert all(max(limits["now_ms"] - f.modified_ms, 0) >= limits["min_age_ms"] for f in b.inputs)


@given(partitions(honest=True), compaction_limits())
def test_planned_again_after_a_compaction_there_is_nothing_to_do(files, limits):
    assert plan_compaction(after(files, plan_compaction(files, **limits)), **limits) == []
