"""When partitions move, and when they stay."""

from __future__ import annotations

import pytest

from consumer_groups.decisions.admin import state_of
from consumer_groups.decisions.rebalance import choose_assignor
from consumer_groups.model.errors import PartitionNotOwned
from tests.support.group_stage import Stage, part

T0, T1 = part("t", 0), part("t", 1)


def moving(**options: object) -> Stage:
    """`a` was given records of both partitions; t-1 is to move to `b`."""
    stage = Stage(t=2)
    stage.join("a", "t", **({"auto_commit_enable": False} | options))
    stage.poll("a")
    stage.join("b", "t")
    return stage


def test_the_first_poll_after_a_subscription_has_records_of_what_is_free():
    stage = Stage(t=2)
    stage.join("a", "t")
    assert stage.poll("a") == {T0: (0, 5), T1: (0, 5)}


def test_a_partition_of_which_nothing_was_given_moves_at_once():
    stage = Stage(t=2)
    stage.join("a", "t")
    stage.join("b", "t")
    assert (stage.owned("a"), stage.owned("b")) == ({T0}, {T1})


def test_a_partition_of_which_everything_is_committed_moves_at_once():
    stage = Stage(t=2)
    stage.join("a", "t", auto_commit_enable=False)
    stage.poll("a")
    stage.commit("a")
    stage.join("b", "t")
    assert stage.owner(T1) == "b"
    assert stage.poll("b") == {T1: (5, 10)}


def test_a_partition_waits_for_its_owner_who_reads_it_no_more():
    stage = moving()
    assert state_of(stage.group) == "Reconciling"
    assert stage.owner(T1) == "a"
    assert [read.partition for read in stage.fetch("a").reads] == [T0]
    assert stage.poll("b") == {}


def test_a_partition_moves_when_its_owner_polls():
    stage = moving()
    assert stage.poll("a") == {T0: (5, 10)}
    assert state_of(stage.group) == "Stable"
    assert stage.poll("b") == {T1: (0, 5)}


def test_auto_commit_commits_what_moves_when_its_owner_polls():
    stage = moving(auto_commit_enable=True)
    stage.poll("a")
    assert (stage.committed(T0), stage.committed(T1)) == (None, 5)
    assert stage.poll("b") == {T1: (5, 10)}


def test_a_partition_moves_when_its_owner_commits_all_that_it_was_given():
    stage = moving()
    stage.commit("a")
    assert stage.poll("b") == {T1: (5, 10)}


def test_a_partition_stays_while_a_commit_leaves_a_part_open():
    stage = moving()
    stage.commit("a", {T1: 3})
    assert stage.owner(T1) == "a"
    stage.commit("a", {T1: 5})
    assert stage.owner(T1) == "b"


def test_a_partition_moves_when_its_owner_heartbeats_and_is_not_told_of_revocations():
    stage = moving()
    told = stage.heartbeat("a")
    assert (told.assigned, told.revoking) == ((T0,), ())
    assert stage.poll("b") == {T1: (0, 5)}


def test_a_partition_moves_when_its_owner_says_that_it_gave_it_up():
    stage = moving()
    told = stage.heartbeat("a", owned=frozenset({T0, T1}))
    assert (told.assigned, told.revoking) == ((T0,), (T1,))
    assert stage.owner(T1) == "a"
    told = stage.heartbeat("a", owned=frozenset({T0}))
    assert told.revoking == ()
    assert stage.owner(T1) == "b"


def test_a_partition_of_an_owner_that_reads_without_polls_moves_only_when_a_heartbeat_gives_it_up():
    stage = Stage(t=2)
    stage.join("a", "t", auto_commit_enable=False, polls=False)
    stage.join("b", "t")
    stage.commit("a", {T0: 4, T1: 4}, keeps=True)
    stage.heartbeat("a", owned=frozenset({T0, T1}))
    assert stage.owner(T1) == "a"
    stage.heartbeat("a")
    assert stage.poll("b") == {T1: (4, 9)}


def test_who_reads_without_polls_need_not_poll_and_is_still_not_waited_for_longer_than_the_rebalance_timeout():
    stage = Stage(t=2)
    stage.join("a", "t", polls=False, max_poll_interval_ms=1000, rebalance_timeout_ms=10_000)
    stage.pass_time(2000)
    assert stage.owned("a") == {T0, T1}
    stage.join("b", "t")
    stage.pass_time(10_000)
    assert stage.owned("b") == {T1}


def test_a_partition_moves_when_its_owner_leaves():
    stage = moving()
    stage.leave("a")
    assert stage.owned("b") == {T0, T1}


def test_a_partition_moves_when_the_session_of_its_owner_ends():
    stage = moving(session_timeout_ms=10_000, rebalance_timeout_ms=50_000)
    stage.pass_time(9_999)
    assert stage.owner(T1) == "a"
    assert stage.pass_time(1) == ("a",)
    assert stage.owned("b") == {T0, T1}


def test_a_partition_waits_no_longer_than_the_rebalance_timeout_and_its_owner_is_fenced_for_it():
    stage = moving(rebalance_timeout_ms=2000)
    stage.pass_time(1999)
    assert stage.owner(T1) == "a"
    stage.pass_time(1)
    assert stage.owner(T1) == "b"
    with pytest.raises(PartitionNotOwned):
        stage.commit("a", {T1: 5})
    with pytest.raises(PartitionNotOwned):
        stage.commit("a")
    assert stage.committed(T1) is None
    stage.commit("a", {T0: 5})


def test_a_poll_makes_a_fenced_member_commit_what_it_is_given_again():
    stage = moving(rebalance_timeout_ms=2000)
    stage.pass_time(2000)
    stage.poll("a")
    assert stage.commit("a") == {T0: 10}


def test_a_member_that_waits_in_a_poll_holds_nothing_up():
    stage = Stage(t=2)
    stage.join("a", "t", auto_commit_enable=False)
    stage.poll("a")
    stage.begin_poll("a", wait_ms=60_000)
    stage.join("b", "t")
    assert stage.owner(T1) == "b"
    assert stage.last is not None
    assert stage.last.woken == {"a", "b"}
    stage.commit("a")
    assert (stage.committed(T0), stage.committed(T1)) == (5, None)


def test_after_a_restart_it_is_not_known_what_was_given_so_the_owner_is_waited_for():
    stage = Stage(t=2)
    stage.join("a", "t", auto_commit_enable=False)
    stage.restart()
    stage.join("b", "t")
    assert stage.owner(T1) == "a"
    stage.commit("a", {T1: 3})
    assert stage.owner(T1) == "b"


def test_what_is_revoked_when_the_process_ends_waits_a_full_time_again():
    stage = moving(rebalance_timeout_ms=2000)
    stage.now += 1500
    stage.restart()
    stage.pass_time(1999)
    assert stage.owner(T1) == "a"
    stage.pass_time(1)
    assert stage.owner(T1) == "b"


def test_only_what_moves_is_disturbed():
    stage = Stage(t=4)
    stage.join("a", "t", partition_assignment_strategy="sticky")
    stage.poll("a")
    generation = stage.group.generation
    stage.join("b", "t", partition_assignment_strategy="sticky")
    stage.poll("a")
    kept = stage.owned("a")
    assert len(kept) == 2
    assert stage.group.generation == generation + 1
    stage.commit("a", dict.fromkeys(kept, 5), generation=generation)
    assert stage.poll("a").keys() == set()
    assert all(stage.committed(each) == 5 for each in kept)


def test_a_partition_that_comes_back_begins_at_what_is_committed():
    stage = moving()
    stage.commit("a", {T1: 2})
    stage.leave("b")
    assert stage.owner(T1) == "a"
    assert stage.poll("a") == {T0: (5, 10), T1: (2, 7)}


def test_surplus_members_own_nothing_and_are_told_so():
    stage = Stage(t=1)
    stage.join("a", "t")
    generation = stage.group.generation
    stage.join("b", "t")
    assert stage.heartbeat("b").assigned == ()
    assert stage.poll("b") == {}
    assert stage.group.generation == generation + 1


def test_the_generation_stays_when_a_member_without_partitions_leaves():
    stage = Stage(t=1)
    stage.join("a", "t")
    stage.join("b", "t")
    generation = stage.group.generation
    stage.leave("b")
    assert stage.group.generation == generation


def test_most_members_choose_the_assignor_among_those_that_all_take():
    stage = Stage(t=1)
    for member_id, strategy in (("a", "range,sticky"), ("b", "sticky,range"), ("c", "roundrobin,sticky")):
        stage.join(member_id, "t", partition_assignment_strategy=strategy)
    members = list(stage.group.members.values())
    assert choose_assignor(members) == "sticky"
    assert choose_assignor(members[:1]) == "range"
    stage.join("d", "t", partition_assignment_strategy="range")
    stage.join("e", "t", partition_assignment_strategy="range")
    assert choose_assignor(list(stage.group.members.values())) == "range"


def test_a_group_goes_on_when_its_own_assignor_fails():
    stage = Stage(custom=("tests.support.group_assignors:fail_without_b",), t=2)
    stage.join("b", "t", partition_assignment_strategy="tests.support.group_assignors:fail_without_b")
    stage.join("c", "t", partition_assignment_strategy="tests.support.group_assignors:fail_without_b")
    assert (stage.owned("b"), stage.owned("c")) == ({T0, T1}, set())
    stage.leave("b")
    assert stage.owned("c") == {T0, T1}


def test_fifty_members_and_two_hundred_partitions_come_to_rest_after_each_polled_once():
    stage = Stage(t=200)
    for number in range(50):
        stage.join(f"m{number:02}", "t", auto_commit_enable=False)
        stage.poll(f"m{number:02}")
    for number in range(50):
        stage.poll(f"m{number:02}")
    assert state_of(stage.group) == "Stable"
    assert {len(held.assigned) for held in stage.group.holdings.values()} == {4}
