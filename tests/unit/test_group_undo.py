"""Decisions that could not be written."""

from __future__ import annotations

from consumer_groups.decisions.membership import Join, Leave, decide_join, decide_leave
from consumer_groups.decisions.polling import Fetch, decide_fetch
from consumer_groups.decisions.subscription import Subscribe, decide_subscribe
from consumer_groups.model.options import Options
from consumer_groups.state.decision import apply, begin, record_liveness, undo
from consumer_groups.state.invariants import check_invariants
from tests.support.group_stage import Stage, part

T0, T1 = part("t", 0), part("t", 1)


def test_decisions_are_taken_back_the_latest_first():
    stage = Stage(t=2)
    stage.join("a", "t", auto_commit_enable=False)
    stage.poll("a")
    stage.commit("a")
    before, presence = dict(stage.group.table), stage.group.presences["a"]
    displaced = []
    for decide, command in (
        (decide_join, Join("b", Options())),
        (decide_subscribe, Subscribe("b", ("t",))),
        (decide_leave, Leave("a")),
    ):
        displaced += apply(stage.groups, decide(stage.group, command, stage.cluster, stage.now))
    assert stage.owned("b") == {T0, T1}
    undo(stage.groups, displaced, stage.now)
    check_invariants(stage.group)
    assert stage.group.table == before
    assert stage.group.presences["a"] is not presence
    assert stage.poll("a") == {T0: (5, 10), T1: (5, 10)}
    stage.pass_time(299_999)
    assert list(stage.group.members) == ["a"]


def test_a_member_that_is_back_has_a_session_and_its_revocations_an_end():
    stage = Stage(t=2)
    stage.join("a", "t", auto_commit_enable=False, rebalance_timeout_ms=2000)
    stage.poll("a")
    stage.join("b", "t")
    displaced = apply(stage.groups, decide_leave(stage.group, Leave("a"), stage.cluster, stage.now))
    undo(stage.groups, displaced, stage.now)
    check_invariants(stage.group)
    assert stage.owner(T1) == "a"
    stage.pass_time(2000)
    assert stage.owner(T1) == "b"
    assert set(stage.pass_time(298_000)) == {"a", "b"}


def test_where_the_reset_policy_began_is_forgotten_if_it_was_not_written():
    stage = Stage(t=1)
    stage.join("a", "t", auto_offset_reset="latest")
    decision = decide_fetch(stage.group, Fetch("a"), stage.cluster, stage.ends, stage.now)
    undo(stage.groups, apply(stage.groups, decision), stage.now)
    stage.append(T0)
    assert [read.offset for read in stage.begin_poll("a").waits] == [20]
    assert stage.group.positions


def test_a_group_that_was_never_written_is_not_there():
    stage = Stage(t=1)
    displaced = apply(stage.groups, decide_join(stage.group, Join("a", Options()), stage.cluster, stage.now))
    assert list(stage.groups.by_name) == ["g"]
    undo(stage.groups, displaced, stage.now)
    assert not stage.groups.by_name


def test_every_request_keeps_a_member_alive_but_one_that_left():
    stage = Stage(t=1)
    stage.join("a", "t", session_timeout_ms=1000, group_instance_id="s")
    stage.now += 900
    record_liveness(stage.groups, "g", "a", stage.now)
    assert stage.pass_time(999) == ()
    stage.leave("a")
    stage.now += 900
    for group, member_id in (("g", "a"), ("g", "nobody"), ("nowhere", "a")):
        record_liveness(stage.groups, group, member_id, stage.now)
    assert stage.pass_time(100) == ("a",)


def test_a_process_that_was_held_up_begins_all_sessions_anew():
    stage = Stage(t=1)
    stage.join("a", "t", session_timeout_ms=1000)
    stage.now += 60_000
    begin(stage.groups, stage.now, 1)
    assert stage.pass_time(999) == ()


def test_auto_commit_goes_on_after_the_process_was_held_up():
    stage = Stage(t=1)
    stage.join("a", "t", auto_commit_interval_ms=1000)
    stage.poll("a")
    stage.poll("a")  # it is done with what it was given first, and then works for long
    stage.now += 60_000
    begin(stage.groups, stage.now, 1)
    stage.pass_time(999)
    assert stage.committed(T0) is None
    stage.pass_time(1)
    assert stage.committed(T0) == 5
