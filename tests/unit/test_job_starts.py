"""Where a member of a group begins to read, and what a batch came to."""

from __future__ import annotations

import pytest

from delta_log.model.errors import NotAvailable
from jobs.groups.start_offsets import Start, count_offsets, find_ends, find_progress, owed, plan_starts, show_starts
from jobs.source.positions import Range, TopicPartition

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
RANGES = {A: Range(2, 10), B: Range(2, 10), C: Range(0, 0)}


@pytest.mark.parametrize(("policy", "begin"), [("earliest", 2), ("latest", 10), ("none", None)])
@pytest.mark.parametrize("committed", [{}, {A: 1}, {A: 11}])
def test_the_policy_counts_where_nothing_is_committed_that_is_in_the_log(policy, begin, committed):
    if begin is None:
        with pytest.raises(NotAvailable, match=r"a-0: .* is committed.*, and --auto-offset-reset is none"):
            plan_starts({A: RANGES[A]}, committed, policy)
    else:
        assert plan_starts({A: RANGES[A]}, committed, policy)[A].offset == begin


@pytest.mark.parametrize("policy", ["earliest", "latest", "none"])
@pytest.mark.parametrize("offset", [2, 5, 10])
def test_what_is_committed_counts_as_long_as_the_log_has_it(policy, offset):
    assert plan_starts({A: RANGES[A]}, {A: offset, B: 4}, policy) == {A: Start(offset, 10, "committed")}


def test_who_begins_at_the_end_commits_that_before_anything_comes():
    starts = plan_starts(RANGES, {B: 3}, "latest")
    assert owed(starts, "latest") == {A: 10, C: 0}
    assert owed(plan_starts(RANGES, {B: 3}, "earliest"), "earliest") == {}


def test_a_batch_got_further_where_its_end_is_another():
    before, after = {A: 3, B: 4}, {A: 3, B: 9, C: 2}
    assert find_progress(before, after) == {B: 9, C: 2}
    assert count_offsets(before, after) == {"a": 5, "b": 0}
    assert count_offsets({A: 7}, {A: 3}) == {"a": 0}


def test_a_plan_is_shown_topic_by_topic():
    assert list(show_starts(plan_starts(RANGES, {B: 3, A: 0}, "earliest"))) == [
        "topic a",
        "partition 0: from 2 (earliest, as 0 is committed, and not in the log any more) to 10",
        "partition 1: from 3 (committed) to 10",
        "topic b",
        "partition 0: from 0 (earliest) to 0",
    ]


def test_a_batch_ends_where_all_streams_of_the_share_do_whatever_else_its_function_reads():
    ours = {"a": {"0": 3, "1": 9}}
    others = [5, None, "x", {"sourceVersion": 1, "reservoirId": "of Delta"}, {"a": {"x": 1}}, {"other": {"0": 7}}]
    for sources in ([ours], [ours, *others], [*others, ours], [{"a": {"0": 3, "1": 10}}, {"a": {"0": 4, "1": 9}}]):
        assert find_ends(sources, {A, B, C}) == {A: 3, B: 9}
    assert find_ends([{"a": {"0": 3}, "other": {"0": 7}}], {A}) == {}
    assert find_ends([{}], {A}) == {}, "all that was read is gone"
