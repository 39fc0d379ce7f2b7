"""What `lakelog jobs run` is told, and when the next run is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.cli.jobs.schedule import (
    JITTER,
    LEASE_MS,
    Misuse,
    Order,
    is_exclusive,
    lease_ms_until,
    lease_name,
    plan_due,
    plan_order,
)

JOBS = ("retention", "compaction", "audit")


@pytest.mark.parametrize(
    ("words", "order"),
    [
        ("retention --all", Order(("retention",), ("--all",), None)),
        ("retention compaction --all --every 5m", Order(("retention", "compaction"), ("--all",), "5m")),
        ("--every=5m audit --data x --all", Order(("audit",), ("--data", "x", "--all"), "5m")),
        ("audit audit --topic audit", Order(("audit",), ("--topic", "audit"), None)),
        ("retention --all --output json", Order(("retention",), ("--all",), None)),
        ("--output=json audit --every 5m --all", Order(("audit",), ("--all",), "5m")),
    ],
)
def test_names_come_first_and_every_stands_anywhere(words: str, order: Order):
    assert plan_order(words.split(), JOBS) == order
    assert not order.wants_help


@pytest.mark.parametrize("words", ["--help", "-h", "retention --help", "retention --all -h"])
def test_help_is_asked_for_with_a_job_or_without_one(words: str):
    assert plan_order(words.split(), JOBS).wants_help


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("", "name a job to run"),
        ("--all", "name a job to run"),
        ("retentoin --all", "there is no job 'retentoin'; the jobs are: retention, compaction, audit"),
        ("retention --every", "needs a length of time"),
        ("retention --every 5m --every 6m", "given 2 times"),
        ("retention --all --output text", "--output can be json alone"),
        ("retention --all --output", "--output needs json"),
    ],
)
def test_what_cannot_be_understood_is_said(words: str, why: str):
    with pytest.raises(Misuse, match=why):
        plan_order(words.split(), JOBS)


def test_the_same_work_has_the_same_lease_wherever_it_is_done():
    names = {
        lease_name("retention", options.split())
        for options in (
            "--all",
            "--data /a --all",
            "--data=/b --engine local --all --debug",
            "--all --master local[2] --engine=spark",
        )
    }
    assert len(names) == 1


def test_other_work_has_another_lease():
    options = ("--all", "--topic a", "--topic b", "--topic a --topic b", "--all --min-age --data", "--topic=a")
    names = {lease_name(job, words.split()) for words in options for job in JOBS}
    assert len(names) == len(options) * len(JOBS)


def test_members_of_a_group_share_their_work_and_all_other_jobs_exclude_themselves():
    assert [name for name in (*JOBS, "consume", "materialize") if not is_exclusive(name)] == ["consume"]


def test_the_next_run_is_due_an_interval_after_the_last_began():
    assert plan_due(100, 103, 60, chance=0.5) == 160


def test_a_run_that_took_longer_than_the_interval_is_followed_by_one_run_in_the_next_interval():
    assert plan_due(100, 160, 60, chance=0.5) == 220
    assert plan_due(100, 500, 60, chance=0.5) == 520


TIMES = st.floats(0, 1e6)


@given(began=TIMES, took=TIMES, every=st.floats(1, 1e6), chance=st.floats(0, 1, exclude_max=True))
def test_runs_never_overlap_never_pile_up_and_keep_their_pace(began: float, took: float, every: float, chance: float):
    due = plan_due(began, began + took, every, chance)
    assert began + took <= due <= began + took + (1 + JITTER) * every * 1.000001
    if took < (1 - JITTER) * every:
        assert abs(due - began - every) <= JITTER * every * 1.000001


def test_a_lease_outlasts_the_sleep_of_its_holder():
    assert lease_ms_until(0.0001) == LEASE_MS + 1
    assert lease_ms_until(3600) == 3_600_000 + LEASE_MS
