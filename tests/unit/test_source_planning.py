"""What a query reads is decided without a disk, a socket or a clock."""

import re
from itertools import pairwise
from typing import ClassVar

import pytest

from jobs.source.errors import InvalidOption, UnknownTopics
from jobs.source.planning import (
    PlannedFile,
    Span,
    Tabled,
    begin,
    check_named,
    check_there,
    check_times_found,
    choose_partitions,
    choose_topics,
    is_settled,
    is_too_little,
    plan_ends,
    plan_slice,
    plan_spans,
    resolve,
    split,
    times_wanted,
)
from jobs.source.positions import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    Everywhere,
    Range,
    TopicPartition,
    from_json,
    to_json,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
GONE = "a-0 is gone, or is not among what is to be read any more"


def test_positions_are_kafkas_json_in_order():
    text = to_json({B0: 1, TopicPartition("a", 10): 3, TopicPartition("a", 9): 2})
    assert list(text.items()) == [("a", {"9": 2, "10": 3}), ("b", {"0": 1})]
    assert from_json(text) == {TopicPartition("a", 9): 2, TopicPartition("a", 10): 3, B0: 1}


class TestWhatIsRead:
    def test_a_pattern_must_match_the_whole_name(self):
        assert choose_topics(re.compile("or|ord.*s"), ["ord", "orders", "orders2", "or"]) == ["or", "orders"]

    def test_named_topics_are_read_whether_or_not_they_are_listed(self):
        assert choose_topics(("b", "a"), ["c"]) == ["a", "b"]
        assert choose_topics(frozenset({A0, A1, B0}), []) == ["a", "b"]

    def test_all_partitions_are_read_but_where_they_are_assigned(self):
        assert choose_partitions(("a", "b"), {"a": 2, "b": 1}, "here") == [A0, A1, B0]
        assert choose_partitions(frozenset({A1, B0}), {"a": 2, "b": 1}, "here") == [A1, B0]

    def test_an_assigned_partition_must_be_there(self):
        with pytest.raises(InvalidOption, match=r"a in here has no partition 1: it has 1"):
            choose_partitions(frozenset({A1}), {"a": 1}, "here")

    def test_topics_that_are_not_there_are_named(self):
        check_there(["a"], ["a", "b"], "here")
        with pytest.raises(UnknownTopics, match="no topic 'x' in here"):
            check_there(["a", "x"], ["a"], "here")


class TestLimits:
    def test_words_and_marks_mean_the_ends_of_each_partition(self):
        ranges = {A0: Range(2, 9), A1: Range(0, 5)}
        assert resolve(Everywhere(EARLIEST), ranges, {}) == {A0: 2, A1: 0}
        assert resolve(Everywhere(LATEST), ranges, {}) == {A0: 9, A1: 5}
        assert resolve(AtOffsets({A0: -1, A1: -2}), ranges, {}) == {A0: 9, A1: 0}
        assert resolve(AtOffsets({A0: 4, A1: 77}), ranges, {}) == {A0: 4, A1: 77}

    def test_a_time_means_the_offset_that_was_found_or_the_end(self):
        assert resolve(AtTime(5), {A0: Range(2, 9), A1: Range(0, 5)}, {A0: 3, A1: None}) == {A0: 3, A1: 5}
        assert times_wanted(AtTime(5), [A0, A1]) == {A0: 5, A1: 5}
        assert times_wanted(AtTime({A0: 5, A1: 6}), [A0, A1]) == {A0: 5, A1: 6}
        assert times_wanted(Everywhere(LATEST), [A0]) == {}

    def test_a_time_that_no_record_has_reached_is_an_error_unless_latest_will_do(self):
        with pytest.raises(InvalidOption, match="no record of a-0 is at or after 5"):
            check_times_found(AtTime(5), {A0: None}, "error")
        check_times_found(AtTime(5), {A0: None}, "latest")
        check_times_found(AtTime(5), {A0: 1}, "error")

    @pytest.mark.parametrize("limit", [AtOffsets({A0: 1}), AtTime({A0: 1})], ids=["offsets", "times"])
    def test_what_is_said_one_by_one_is_said_for_each_partition_and_no_other(self, limit: AtOffsets | AtTime):
        check_named(limit, [A0], "startingOffsets")
        with pytest.raises(InvalidOption, match="a-1 is missing"):
            check_named(limit, [A0, A1], "startingOffsets")
        with pytest.raises(InvalidOption, match="a-0 is not read"):
            check_named(limit, [], "startingOffsets")

    def test_latest_is_not_settled_as_it_is_another_offset_when_it_is_asked_again(self):
        settled = [Everywhere(EARLIEST), AtOffsets({A0: 3, A1: EARLIEST}), AtTime(5)]
        assert all(is_settled(limit, "error") for limit in settled)
        assert not any(is_settled(limit, "error") for limit in [Everywhere(LATEST), AtOffsets({A0: 3, A1: LATEST})])
        assert not is_settled(AtTime(5), "latest")


class TestSpans:
    def test_a_partition_without_a_start_is_new_and_begins_at_its_log_start(self):
        assert plan_spans({A0: 3}, {A0: 5, A1: 4}, {A0: Range(0, 9), A1: Range(1, 9)}) == (
            [Span(A0, 3, 5), Span(A1, 1, 4)],
            [],
        )

    def test_what_is_not_further_is_not_read(self):
        assert plan_spans({A0: 5}, {A0: 5}, {A0: Range(0, 9)}) == ([], [])

    def test_what_retention_took_is_told_and_reading_goes_on_at_the_log_start(self):
        spans, losses = plan_spans({A0: 3}, {A0: 8}, {A0: Range(6, 9)})
        assert spans == [Span(A0, 6, 8)]
        assert losses == ["a-0 was read up to 3 and begins at 6"]

    def test_a_batch_that_is_wholly_gone_reads_nothing_and_tells(self):
        spans, losses = plan_spans({A0: 3}, {A0: 5}, {A0: Range(6, 9)})
        assert (spans, len(losses)) == ([], 1)

    def test_a_position_beyond_the_end_is_another_topic_and_read_from_its_log_start(self):
        spans, losses = plan_spans({A0: 12}, {A0: 3}, {A0: Range(0, 3)})
        assert spans == [Span(A0, 0, 3)]
        assert "another topic" in losses[0]

    def test_an_end_that_is_not_there_is_told(self):
        spans, losses = plan_spans({A0: 1}, {A0: 7}, {A0: Range(0, 3)})
        assert spans == [Span(A0, 1, 3)]
        assert losses == ["a-0 was to be read up to 7 and ends at 3"]

    @pytest.mark.parametrize("ends", [{}, {A0: 4}], ids=["the batch knew it", "since it was planned"])
    def test_a_partition_that_is_gone_is_told(self, ends: dict[TopicPartition, int]):
        assert plan_spans({A0: 3}, ends, {}) == ([], [GONE])

    def test_a_new_partition_that_is_gone_before_it_was_read_is_told(self):
        assert plan_spans({}, {A0: 3}, {}) == ([], [GONE])

    def test_both_ends_of_the_range_are_positions_without_loss(self):
        assert begin(A0, 3, Range(3, 3)) == (3, "")


class TestBatchesOfAStream:
    RANGES: ClassVar = {A0: Range(0, 1000), A1: Range(0, 100), B0: Range(0, 1)}

    def test_without_a_limit_a_batch_ends_where_the_partitions_do(self):
        assert plan_ends({A0: 5}, self.RANGES, None) == {A0: 1000, A1: 100, B0: 1}

    def test_a_limit_is_shared_out_by_how_much_there_is_and_the_smallest_is_not_starved(self):
        ends = plan_ends({A0: 0, A1: 0, B0: 0}, self.RANGES, 110)
        assert ends == {A0: 99, A1: 9, B0: 1}

    def test_every_limit_gets_through_in_the_end(self):
        position, rounds = {A0: 0, A1: 0, B0: 0}, 0
        while (further := plan_ends(position, self.RANGES, 7)) != position:
            assert all(further[each] >= position[each] for each in position)
            position, rounds = further, rounds + 1
            assert rounds < 1000
        assert position == {A0: 1000, A1: 100, B0: 1}

    def test_what_retention_took_does_not_count(self):
        assert plan_ends({A0: 0}, {A0: Range(900, 1000)}, 10) == {A0: 910}

    def test_a_topic_that_began_anew_is_read_from_its_start(self):
        assert plan_ends({A0: 12}, {A0: Range(0, 3)}, None) == {A0: 3}

    def test_a_partition_that_is_gone_is_left_out(self):
        assert plan_ends({A0: 12, A1: 3}, {A1: Range(0, 3)}, None) == {A1: 3}

    def test_too_little_waits_until_there_is_enough_or_the_time_is_over(self):
        there = {A0: Range(0, 10)}
        assert is_too_little({A0: 5}, there, 6, 0, 1000)
        assert not is_too_little({A0: 5}, there, 5, 0, 1000)
        assert not is_too_little({A0: 5}, there, 6, 1000, 1000)
        assert not is_too_little({A0: 10}, there, None, 0, 1000)


class TestTasks:
    def test_a_partition_is_a_task_where_nothing_else_is_said(self):
        spans = [Span(A0, 0, 1000), Span(A1, 5, 6)]
        assert split(spans, tasks=None, most=None) == spans
        assert split(spans, tasks=2, most=None) == spans

    @pytest.mark.parametrize("tasks", [2, 3, 7, 50])
    def test_more_tasks_read_the_same_offsets_in_the_same_order(self, tasks: int):
        spans = [Span(A0, 3, 1000), Span(A1, 5, 6), Span(B0, 0, 333)]
        pieces = split(spans, tasks=tasks, most=None)
        for span in spans:
            own = [piece for piece in pieces if piece.of == span.of]
            assert [(own[0].start, own[-1].end)] == [(span.start, span.end)]
            assert all(left.end == right.start for left, right in pairwise(own))
        assert abs(len(pieces) - max(tasks, 3)) <= 1
        assert [piece.of for piece in pieces] == sorted(piece.of for piece in pieces)

    def test_no_task_reads_more_than_it_may(self):
        pieces = split([Span(A0, 0, 1001)], tasks=None, most=100)
        assert len(pieces) == 11
        assert max(piece.size for piece in pieces) <= 100
        assert sum(piece.size for piece in pieces) == 1001

    def test_more_tasks_than_offsets_are_not_made(self):
        assert split([Span(A0, 0, 3)], tasks=10, most=None) == [Span(A0, 0, 1), Span(A0, 1, 2), Span(A0, 2, 3)]


class TestSlices:
    FILES = tuple(PlannedFile(f"f{n}", n * 10, n * 10 + 10, dense=True) for n in range(4))

    def test_a_slice_names_the_files_with_something_of_it(self):
        cut = plan_slice(Span(A0, 10, 21), 0, Tabled("id", 40, self.FILES))
        assert cut.tabled == Tabled("id", 40, self.FILES[1:3])

    def test_what_is_above_the_table_is_not_in_it(self):
        assert plan_slice(Span(A0, 40, 50), 0, Tabled("id", 40, self.FILES)).tabled is None
        assert plan_slice(Span(A0, 0, 5), 1, None).tabled is None

    def test_files_of_another_topic_of_the_name_hold_nothing_of_it(self):
        tabled = Tabled("old", 40, self.FILES)
        assert plan_slice(Span(A0, 0, 5), 0, tabled, "new").tabled is None
        assert plan_slice(Span(A0, 0, 5), 0, tabled, "old").tabled == Tabled("old", 40, self.FILES[:1])
