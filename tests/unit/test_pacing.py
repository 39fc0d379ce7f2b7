"""When a table is due, and how many files a second there may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_log.runtime.file_budget import SOONEST_S, FileBudget, due_at

SECONDS = st.floats(0, 1e6)
INTERVALS = st.floats(0.1, 3600)
CASES = st.fixed_dictionaries({"interval": INTERVALS, "waiting": st.integers(0, 100), "wanted": st.booleans()})


def test_a_table_that_was_idle_is_due_at_once():
    assert due_at(100.0, float("-inf"), interval=1, waiting=1, commit_bytes=10, wanted=False) == 100.0
    assert due_at(100.0, 98.9, interval=1, waiting=1, commit_bytes=10, wanted=False) == 100.0


def test_a_busy_table_is_due_an_interval_after_its_last_commit():
    assert due_at(100.0, 99.5, interval=1, waiting=9, commit_bytes=10, wanted=False) == 100.5


def test_much_that_waits_is_due_at_once():
    assert due_at(100.0, 99.99, interval=1, waiting=10, commit_bytes=10, wanted=False) == 100.0


def test_who_waits_for_the_table_brings_its_commit_forward_but_not_without_bounds():
    assert due_at(100.0, 100.0, interval=1, waiting=1, commit_bytes=10, wanted=True) == 100.0 + SOONEST_S
    assert due_at(100.0, 99.0, interval=1, waiting=1, commit_bytes=10, wanted=True) == 100.0


@given(now=SECONDS, ago=SECONDS, case=CASES)
def test_nothing_is_due_in_the_past_or_later_than_an_interval_from_the_last_commit(now: float, ago: float, case):
    at = due_at(now, now - ago, commit_bytes=50, **case)
    assert now <= at <= max(now, now - ago + case["interval"])


@given(now=SECONDS, ago=SECONDS, case=CASES)
def test_wanting_a_commit_never_puts_it_off(now: float, ago: float, case):
    wanted, not_wanted = ({**case, "wanted": value} for value in (True, False))
    assert due_at(now, now - ago, commit_bytes=50, **wanted) <= due_at(now, now - ago, commit_bytes=50, **not_wanted)


def test_a_debt_of_files_is_waited_for():
    budget = FileBudget(10, tokens=10, at=0.0)
    assert budget.free_at(0.0) == 0.0
    budget.spend(30, 0.0)
    assert budget.free_at(0.0) == pytest.approx(2.0)
    assert budget.free_at(1.0) == pytest.approx(2.0)
    assert budget.free_at(2.0) == 2.0


def test_a_budget_saves_no_more_than_a_second():
    budget = FileBudget(10, tokens=10, at=0.0)
    budget.spend(20, 1000.0)
    assert budget.free_at(1000.0) == pytest.approx(1001.0)


def test_time_that_was_read_before_another_thread_got_ahead_does_not_fill_twice():
    """Threads read the clock before they get the lock, so times may arrive in another order."""
    budget = FileBudget(10, tokens=0, at=0.0)
    budget.spend(20, 1.0)
    budget.spend(0, 0.0)
    assert budget.free_at(1.0) == pytest.approx(2.0)


@given(
    rate=st.floats(1, 1000),
    spent=st.lists(st.tuples(st.floats(-1, 3), st.integers(0, 500)), max_size=30),
)
def test_who_waits_for_the_budget_writes_no_more_than_it_allows(rate: float, spent):
    """At most rate × time files and a second's worth saved before, beside what the last commit went beyond."""
    budget = FileBudget(rate, tokens=rate, at=0.0)
    clock = total = 0.0
    for wait, files in spent:
        clock = max(clock, budget.free_at(max(0.0, clock + wait)))
        assert total <= rate * clock + rate + 1e-3
        budget.spend(files, max(0.0, clock + min(wait, 0)))
        total += files
