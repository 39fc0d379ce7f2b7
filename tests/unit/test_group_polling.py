"""Where to read next, and what becomes of what was read."""

from __future__ import annotations

import pytest

from consumer_groups.decisions.polling import Lookup, decide_answer_lost, decide_idle
from consumer_groups.model.errors import IllegalState, NoOffset
from delta_log.model.types import PartitionOffsets
from tests.support.group_stage import Stage, part

T0, T1, T2 = part("t", 0), part("t", 1), part("t", 2)


def reading(partitions: int = 1, **options: object) -> Stage:
    stage = Stage(t=partitions)
    stage.join("a", "t", **({"auto_commit_enable": False} | options))
    return stage


def test_partitions_take_turns():
    stage = reading(3)
    firsts = []
    for _ in range(4):
        plan = stage.begin_poll("a")
        firsts.append(plan.reads[0].partition)
        stage.end_poll("a", plan.reads[:1], most=1)
    assert firsts == [T0, T1, T2, T0]


def test_what_is_at_its_end_is_waited_for():
    stage = reading(2)
    stage.ends[T0] = PartitionOffsets(0, 0)
    plan = stage.begin_poll("a")
    assert [read.partition for read in plan.reads] == [T1]
    assert [(read.partition, read.offset) for read in plan.waits] == [(T0, 0)]


def test_what_is_paused_or_cannot_be_read_is_left_out():
    stage = reading(3)
    del stage.ends[T1]
    assert [read.partition for read in stage.fetch("a", paused=frozenset({T0})).reads] == [T2]


def test_latest_begins_at_the_end_and_stays_there_for_everybody():
    stage = reading(auto_offset_reset="latest", session_timeout_ms=1000)
    assert stage.poll("a") == {}
    stage.append(T0)
    stage.restart()
    assert stage.poll("a") == {T0: (10, 15)}
    stage.pass_time(1000)
    stage.append(T0)
    stage.join("b", "t", auto_offset_reset="latest")
    assert stage.poll("b") == {T0: (10, 15)}


def test_a_duration_is_looked_up_and_then_kept():
    stage = reading(auto_offset_reset="by_duration:PT10S")
    plan = stage.begin_poll("a")
    assert plan.lookups == (Lookup(T0, stage.now - 10_000),)
    assert not plan.reads
    assert [read.offset for read in stage.fetch("a", found={T0: 4}).reads] == [4]
    stage.restart()
    assert [read.offset for read in stage.begin_poll("a").reads] == [4]


def test_a_duration_without_a_record_begins_at_the_end():
    stage = reading(auto_offset_reset="by_duration:PT10S")
    stage.begin_poll("a")
    assert [read.offset for read in stage.fetch("a", found={T0: None}).waits] == [10]


def test_none_refuses_to_begin():
    stage = reading(auto_offset_reset="none")
    with pytest.raises(NoOffset) as refused:
        stage.poll("a")
    assert refused.value.position is None
    stage.commit("a", {T0: 3})
    assert stage.poll("a") == {T0: (3, 8)}


@pytest.mark.parametrize(("policy", "begins"), [("earliest", 7), ("latest", 10)])
def test_what_is_gone_from_the_log_is_for_the_reset_policy(policy: str, begins: int):
    stage = reading(auto_offset_reset=policy)
    stage.commit("a", {T0: 2})
    stage.ends[T0] = PartitionOffsets(7, 10)
    plan = stage.begin_poll("a")
    assert [read.offset for read in (*plan.reads, *plan.waits)] == [begins]
    stage.append(T0)
    stage.restart()
    assert [read.offset for read in stage.begin_poll("a").reads] == [begins]


def test_what_was_read_of_a_partition_that_moved_is_not_given():
    stage = reading(2)
    plan = stage.begin_poll("a")
    stage.join("b", "t")
    accepted = stage.end_poll("a", plan.reads).accepted
    assert [each.read.partition for each in accepted] == [T0]


def test_what_was_read_before_a_partition_went_and_came_back_is_not_given():
    stage = reading(2)
    plan = stage.begin_poll("a")
    stage.join("b", "t")
    stage.leave("b")
    again = stage.begin_poll("a")
    assert [(read.partition, read.offset) for read in again.reads] == [(T0, 0), (T1, 0)]
    assert [each.read.partition for each in stage.end_poll("a", plan.reads).accepted] == [T0]


def test_what_was_read_before_a_seek_is_not_given():
    stage = reading()
    plan = stage.begin_poll("a")
    stage.seek("a", {T0: 7})
    assert stage.end_poll("a", plan.reads).accepted == ()
    assert stage.poll("a") == {T0: (7, 10)}


def test_of_two_polls_at_once_one_is_given_a_record():
    stage = reading()
    first, second = stage.begin_poll("a"), stage.begin_poll("a")
    assert stage.end_poll("a", first.reads).accepted
    assert stage.end_poll("a", second.reads).accepted == ()


def test_what_was_read_of_a_topic_that_was_made_anew_is_not_given():
    stage = reading()
    plan = stage.begin_poll("a")
    stage.change_topic("t", 1, "t-2")
    assert stage.end_poll("a", plan.reads).accepted == ()
    assert stage.poll("a") == {T0: (0, 5)}


def test_an_answer_that_did_not_arrive_is_given_again():
    stage = reading(auto_commit_enable=True, auto_commit_interval_ms=0)
    stage.poll("a", received=0)
    answer = stage.group.presences["a"].answer
    stage.poll("a", received=answer)
    assert stage.poll("a", received=answer) == {T0: (5, 10)}
    assert stage.committed(T0) == 5


def test_an_answer_that_is_known_to_be_lost_is_given_again():
    stage = reading()
    stage.poll("a")
    answer = stage.group.presences["a"].answer
    stage.do(decide_answer_lost(stage.group, "a", answer - 1))
    assert stage.group.presences["a"].places[T0].position == 5
    stage.do(decide_answer_lost(stage.group, "a", answer))
    assert stage.poll("a") == {T0: (0, 5)}


@pytest.mark.parametrize("ask", ["leave", "commit"])
def test_an_answer_that_did_not_arrive_is_not_committed(ask: str):
    stage = reading(auto_commit_enable=True)
    stage.poll("a", received=0, most=2)
    answer = stage.group.presences["a"].answer
    stage.poll("a", received=answer)
    getattr(stage, ask)("a", received=answer)
    assert stage.committed(T0) == 2


def test_a_seek_that_comes_late_moves_nothing():
    stage = reading()
    stage.seek("a", {T0: 0}, received=0)
    stage.poll("a", received=0, most=3)
    answer = stage.group.presences["a"].answer
    stage.poll("a", received=answer, most=1)
    with pytest.raises(IllegalState):
        stage.seek("a", {T0: 0}, received=0)
    assert stage.poll("a", received=answer + 1) == {T0: (4, 9)}
    stage.seek("a", {T0: 0}, received=answer + 1)


def test_what_a_late_poll_took_back_is_given_again_behind_a_gap_in_the_numbers():
    """Its owner has it already, and sees by the gap that nobody knows that."""
    stage = reading()
    stage.poll("a", received=0, most=3)
    answer = stage.group.presences["a"].answer
    stage.begin_poll("a", received=0)  # it was sent before that answer arrived
    assert stage.poll("a", received=answer, most=3) == {T0: (0, 3)}
    assert stage.group.presences["a"].answer > answer + 1
    answer = stage.group.presences["a"].answer
    stage.seek("a", {T0: 3}, received=answer)
    assert stage.poll("a", received=answer) == {T0: (3, 8)}
    assert stage.group.presences["a"].answer == answer + 1


def test_behind_what_another_poll_was_given_meanwhile_nothing_is_given():
    """One of the two came late, and nobody knows which: the number says that its answer is missing."""
    stage = reading()
    answer = stage.group.presences["a"].answer
    early, late = stage.begin_poll("a", received=0), stage.begin_poll("a", received=0)
    assert stage.end_poll("a", late.reads, 3, answer).accepted
    assert not stage.end_poll("a", stage.fetch("a").reads, 3, answer).accepted
    assert not stage.end_poll("a", early.reads, 3, answer).accepted
    assert stage.poll("a", received=0, most=3) == {T0: (0, 3)}


def test_numbers_of_answers_are_of_one_process():
    stage = reading()
    stage.poll("a", received=0, most=1)
    answer = stage.group.presences["a"].answer
    stage.restart()
    stage.poll("a", received=answer, most=1)
    assert stage.poll("a", received=answer, most=1) == {T0: (0, 1)}


def test_a_poll_that_ends_without_records_counts_from_its_end():
    stage = reading(session_timeout_ms=1000, max_poll_interval_ms=1000)
    stage.begin_poll("a", wait_ms=5000)
    stage.now += 3000
    stage.do(decide_idle(stage.group, "a", stage.now))
    assert stage.pass_time(999) == ()
    assert stage.owner(T0) == "a"


def test_a_client_that_went_away_in_its_poll_is_not_waited_for():
    stage = reading(session_timeout_ms=1000)
    stage.begin_poll("a", wait_ms=5000)
    stage.do(decide_idle(stage.group, "a", None))
    assert stage.pass_time(1000) == ("a",)


def test_memory_may_be_lost_and_records_are_given_again_but_never_fewer():
    stage = reading()
    stage.poll("a", most=2)
    stage.commit("a")
    stage.poll("a", most=2)
    stage.restart()
    assert stage.poll("a", most=2) == {T0: (2, 4)}


def test_an_assigned_partition_is_read_without_the_group():
    stage = Stage(t=2)
    stage.join("a")
    stage.join("b")
    stage.assign("a", T0)
    stage.assign("b", T0, T1)
    assert stage.poll("a") == {T0: (0, 5)}
    assert stage.poll("b") == {T0: (0, 5), T1: (0, 5)}
    stage.assign("a", T0, T1)
    assert stage.poll("a") == {T0: (5, 10), T1: (0, 5)}
