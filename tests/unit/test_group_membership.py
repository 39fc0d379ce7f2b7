"""Who is a member, who comes back, and who is fenced."""

from __future__ import annotations

import pytest

from consumer_groups.decisions.dead_lettering import GiveUp, Spot, plan_giving_up
from consumer_groups.model.errors import NameTaken, PartitionNotOwned, PollOverdue, StaleGeneration, UnknownInstance
from delta_log.model.errors import InvalidName
from tests.support.group_stage import Stage, part

T0, T1 = part("t", 0), part("t", 1)


def test_a_name_is_given_once():
    stage = Stage(t=1)
    stage.join("a")
    with pytest.raises(NameTaken):
        stage.join("a")
    stage.leave("a")
    stage.join("a")


def test_names_are_checked_before_anything_is_decided():
    with pytest.raises(InvalidName):
        Stage().join("a\n")


def test_nobody_else_can_ask():
    stage = Stage(t=1)
    stage.join("a", "t")
    for ask in (stage.heartbeat, stage.leave, stage.poll, stage.commit):
        with pytest.raises(UnknownInstance):
            ask("b")


def test_an_expired_member_is_unknown_and_its_partitions_go_on():
    stage = Stage(t=1)
    stage.join("a", "t", session_timeout_ms=1000, auto_commit_enable=False)
    stage.poll("a")
    stage.join("b", "t")
    assert stage.pass_time(1000) == ("a",)
    with pytest.raises(UnknownInstance):
        stage.commit("a", {T0: 5})
    assert stage.poll("b") == {T0: (0, 5)}


def test_any_answered_request_is_a_heartbeat():
    stage = Stage(t=1)
    stage.join("a", "t", session_timeout_ms=1000)
    for ask in (stage.poll, stage.commit, stage.heartbeat, lambda name: stage.subscribe(name, "t")):
        stage.now += 900
        ask("a")
        assert stage.pass_time(0) == ()


def test_a_member_is_not_expired_inside_its_own_poll():
    stage = Stage(t=1)
    stage.join("a", "t", session_timeout_ms=1000, max_poll_interval_ms=1000)
    stage.begin_poll("a", wait_ms=5000)
    assert stage.pass_time(4999) == ()
    assert stage.owner(T0) == "a"
    assert stage.pass_time(1) == ("a",)


def test_who_does_not_poll_in_time_owns_nothing_until_it_does():
    stage = Stage(t=2)
    stage.join("a", "t", max_poll_interval_ms=1000, auto_commit_enable=False)
    stage.join("b", "t")
    stage.poll("a")
    generation = stage.group.generation
    stage.pass_time(1000)
    assert stage.owned("b") == {T0, T1}
    assert stage.heartbeat("a").assigned == ()
    for offsets in (None, {T0: 5}):
        with pytest.raises(PollOverdue):
            stage.commit("a", offsets)
    with pytest.raises(StaleGeneration) as stale:
        stage.poll("a", generation=generation)
    assert stage.poll("a", generation=stale.value.generation) == {T0: (0, 5)}
    assert stage.owned("a") == {T0}


def test_who_subscribes_late_is_given_its_full_time_to_poll():
    stage = Stage(t=1)
    stage.join("a", max_poll_interval_ms=1000)
    stage.pass_time(5000)
    stage.subscribe("a", "t")
    stage.pass_time(999)
    assert stage.owner(T0) == "a"


@pytest.mark.parametrize("generation", [0, 99])
def test_a_generation_that_is_not_the_members_is_refused(generation: int):
    stage = Stage(t=1)
    stage.join("z", "t")
    stage.join("a", "t")
    for ask in (stage.heartbeat, stage.poll, stage.leave):
        with pytest.raises(StaleGeneration) as stale:
            ask("a", generation=generation)
        assert stale.value.generation == stage.group.generation


def test_an_older_generation_is_the_members_as_long_as_it_stayed():
    stage = Stage(t=2)
    stage.join("a", "t")
    generation = stage.group.generation
    stage.join("b", "t")
    assert stage.heartbeat("a", generation=generation).assigned == (T0,)


def test_a_static_member_that_returns_within_its_session_keeps_its_partitions():
    stage = Stage(t=2)
    stage.join("a", "t", group_instance_id="s", session_timeout_ms=1000, auto_commit_enable=False)
    stage.join("b", "t")
    stage.poll("a")
    kept = stage.owned("a")
    stage.leave("a")
    stage.pass_time(900)
    assert stage.owner(min(kept)) == "a"
    with pytest.raises(UnknownInstance):
        stage.heartbeat("a")
    stage.join("c", group_instance_id="s")
    assert stage.owned("c") == kept
    assert stage.poll("c") == dict.fromkeys(kept, (0, 5))
    assert set(stage.group.members) == {"b", "c"}


def test_a_static_member_that_crashed_is_replaced_at_once_and_its_past_is_fenced():
    stage = Stage(t=1)
    stage.join("a", "t", group_instance_id="s", auto_commit_enable=False)
    generation = stage.group.generation
    plan = stage.begin_poll("a")
    stage.join("a", group_instance_id="s")
    assert stage.end_poll("a", plan.reads).accepted == ()
    for offsets in (None, {T0: 5}, {}):  # the answer to any of them would tell it the generation of its successor
        with pytest.raises(StaleGeneration):
            stage.commit("a", offsets, generation=generation)
    for spots in ({}, {Spot(T0, 0): ""}):
        with pytest.raises(StaleGeneration):
            plan_giving_up(stage.group, GiveUp("a", spots, generation), stage.cluster, stage.ends)
    with pytest.raises(StaleGeneration):
        stage.leave("a", generation=generation)
    assert stage.poll("a", generation=stage.group.generation) == {T0: (0, 5)}


def test_the_past_of_a_static_member_is_fenced_from_what_it_chose_itself():
    stage = Stage(t=1)
    stage.join("a", group_instance_id="s", auto_commit_enable=False)
    stage.assign("a", T0)
    generation = stage.group.generation
    stage.join("a", group_instance_id="s")
    stage.assign("a", T0)
    assert stage.group.generation > generation
    with pytest.raises(StaleGeneration):
        stage.commit("a", {T0: 5}, generation=generation)
    stage.commit("a", {T0: 5}, generation=stage.group.generation)


def test_a_static_member_that_does_not_return_is_gone_with_its_session():
    stage = Stage(t=1)
    stage.join("a", "t", group_instance_id="s", session_timeout_ms=1000)
    stage.join("b", "t")
    stage.leave("a")
    assert stage.pass_time(1000) == ("a",)
    assert stage.owner(T0) == "b"


def test_a_static_member_may_go_for_good():
    stage = Stage(t=1)
    stage.join("a", "t", group_instance_id="s")
    stage.leave("a")
    stage.leave("a", for_good=True)
    assert stage.group.members == {}


def test_a_static_name_does_not_free_the_name_of_somebody_else():
    stage = Stage(t=1)
    stage.join("a", group_instance_id="s")
    stage.join("b")
    with pytest.raises(NameTaken):
        stage.join("b", group_instance_id="s")


def test_a_static_member_that_returns_may_subscribe_otherwise():
    stage = Stage(t=1, u=1)
    stage.join("a", "t", group_instance_id="s")
    stage.join("b", group_instance_id="s")
    stage.subscribe("b", pattern="u")
    assert stage.owned("b") == {part("u")}


def test_sessions_are_full_again_after_a_restart():
    stage = Stage(t=1)
    stage.join("a", "t", session_timeout_ms=1000)
    stage.now += 5000
    stage.restart()
    assert stage.pass_time(999) == ()
    assert stage.owner(T0) == "a"
    assert stage.pass_time(1) == ("a",)


def test_a_zombie_cannot_commit_what_another_reads():
    stage = Stage(t=1)
    stage.join("a", "t", auto_commit_enable=False, rebalance_timeout_ms=1000)
    stage.poll("a")
    stage.leave("a")
    stage.join("b", "t")
    stage.poll("b")
    stage.join("a", "t")
    with pytest.raises(PartitionNotOwned):
        stage.commit("a", {T0: 1})


def test_a_partition_that_was_anothers_meanwhile_is_fenced_for_older_generations():
    stage = Stage(t=1)
    stage.join("b", "t", auto_commit_enable=False)
    stage.poll("b")
    generation = stage.group.generation
    stage.join("a", "t", auto_commit_enable=False)
    stage.poll("b")
    assert stage.poll("a") == {T0: (0, 5)}
    stage.leave("a")
    assert stage.owner(T0) == "b"
    with pytest.raises(StaleGeneration):
        stage.commit("b", {T0: 3}, generation=generation)
    stage.commit("b", {T0: 3})
    stage.commit("b", {T0: 4}, generation=stage.group.generation)
