"""Which files of a ledger's table become one."""

from hypothesis import given
from hypothesis import strategies as st

from delta_log.maintenance.compaction.keyed_files import KEPT_FILES, KEPT_ROWS, plan_ledger_compaction
from delta_log.model.types import DataFile


def files(*counts: int) -> list[DataFile]:
    found: list[DataFile] = []
    place = 0
    for count in counts:
        found.append(DataFile(f"{place}.parquet", -1, place, place + count - 1, count, count, 0, 0, 0))
        place += count
    return found


def planned(*counts: int) -> list[int] | None:
    plan = plan_ledger_compaction(files(*counts))
    return None if plan is None else [file.count for file in plan.inputs]


def test_a_few_files_with_few_rows_are_left_alone():
    assert planned() is planned(5) is planned(5, 5) is planned(*[5] * KEPT_FILES) is None


def test_many_small_files_become_one():
    plan = plan_ledger_compaction(files(*[5] * (KEPT_FILES + 1)))
    assert plan is not None
    assert plan.whole
    assert len(plan.inputs) == KEPT_FILES + 1


def test_a_large_old_file_is_left_alone_until_as_much_is_newer():
    assert planned(1000, *[5] * KEPT_FILES) == [5] * KEPT_FILES
    plan = plan_ledger_compaction(files(1000, *[5] * KEPT_FILES))
    assert plan is not None
    assert not plan.whole
    assert planned(1000, 995, *[5] * KEPT_FILES) == [1000, 995, *[5] * KEPT_FILES]


def test_where_half_of_many_rows_may_be_dead_all_become_one_however_few_files_they_are():
    assert planned(KEPT_ROWS, KEPT_ROWS - 1) is None
    assert planned(KEPT_ROWS, KEPT_ROWS) == [KEPT_ROWS, KEPT_ROWS]
    assert planned(2 * KEPT_ROWS, KEPT_ROWS, KEPT_ROWS) == [2 * KEPT_ROWS, KEPT_ROWS, KEPT_ROWS]


def test_a_single_file_is_never_rewritten():
    assert planned(0) is planned(10 * KEPT_ROWS) is None


@given(st.lists(st.integers(1, 50), max_size=300), st.integers(1, 40))
def test_files_stay_few_and_rows_are_rewritten_seldom_whatever_comes(commits: list[int], keys: int):
    """As many as the logarithm of the rows, beside those that are not worth a commit yet."""
    counts: list[int] = []
    written = rewritten = 0
    for count in commits:
        counts.append(min(count, keys))
        written += counts[-1]
        plan = plan_ledger_compaction(files(*counts))
        if plan is not None:
            inputs = counts[len(counts) - len(plan.inputs) :]
            assert len(inputs) > 1
            assert [file.count for file in plan.inputs] == inputs
            assert plan.whole == (len(inputs) == len(counts))
            rewritten += sum(inputs)
            counts[len(counts) - len(plan.inputs) :] = [min(sum(inputs), keys)]
        assert len(counts) <= KEPT_FILES + 15
    assert rewritten <= written * 15
