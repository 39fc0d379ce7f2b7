"""Subscriptions, and topics that come, grow and go."""

from __future__ import annotations

import pytest

from consumer_groups.decisions.idle_groups import OFFSETS_RETENTION_MS, decide_retention
from consumer_groups.decisions.subscription import Unsubscribe, decide_unsubscribe, read_assignment, read_subscription
from consumer_groups.model.cluster import PatternError, match_names
from consumer_groups.model.errors import IllegalState, InvalidPattern, MixedSubscription, PartitionNotOwned
from delta_log.model.errors import InvalidName, UnknownPartition, UnknownTopic
from tests.support.group_stage import Stage, part

T0, U0 = part("t"), part("u")


def unsubscribe(stage: Stage, member_id: str) -> None:
    stage.do(decide_unsubscribe(stage.group, Unsubscribe(member_id), stage.cluster, stage.now))


def retain(stage: Stage, ms: int) -> int:
    """How many offsets are forgotten."""
    stage.now += ms
    return len(stage.do(decide_retention(stage.group, stage.cluster, stage.now)))


def test_a_pattern_matches_whole_names_and_nothing_internal():
    assert match_names("a.?", ["a", "ab", "abc", "ba", "__a"]) == {"a", "ab"}
    assert match_names("a|b", ["a", "b", "ab"]) == {"a", "b"}
    assert match_names(".*", ["__consumer_offsets", "x"]) == {"x"}


@pytest.mark.parametrize("pattern", ["(", "a)|(b", "[", "(?x)a", "\\Qa", "\udc00", "(a)\\1"])
def test_what_is_no_expression_is_refused(pattern: str):
    stage = Stage(t=1)
    stage.join("a")
    with pytest.raises(InvalidPattern):
        stage.subscribe("a", pattern=pattern)
    with pytest.raises(PatternError):
        match_names(pattern, ["a"])


def test_a_pattern_of_ill_will_takes_no_longer_than_another():
    assert match_names("(a+)+b", ["a" * 249]) == set()


def test_new_topics_of_a_pattern_and_new_partitions_are_picked_up_from_their_beginning():
    stage = Stage(t=1)
    stage.join("a")
    stage.subscribe("a", pattern="[tu]")
    assert stage.poll("a") == {T0: (0, 5)}
    stage.change_topic("u", 1)
    assert stage.last is not None
    assert stage.last.woken == {"a"}
    stage.change_topic("t", 2)
    stage.change_topic("other", 1)
    assert stage.last.woken == set()
    assert stage.poll("a") == {T0: (5, 10), U0: (0, 5), part("t", 1): (0, 5)}
    assert read_subscription(stage.group, "a", stage.cluster) == ("t", "u")
    assert read_assignment(stage.group, "a") == (T0, part("t", 1), U0)


def test_topics_a_pattern_and_an_assignment_exclude_each_other():
    stage = Stage(t=1)
    stage.join("a", "t")
    with pytest.raises(MixedSubscription):
        stage.assign("a", T0)
    with pytest.raises(MixedSubscription):
        stage.subscribe("a", pattern="t")
    unsubscribe(stage, "a")
    stage.assign("a", T0)
    with pytest.raises(MixedSubscription):
        stage.subscribe("a", "t")
    stage.assign("a")
    stage.subscribe("a", pattern="t")
    with pytest.raises(MixedSubscription):
        stage.subscribe("a", "t")


def test_a_subscription_names_topics_or_a_pattern():
    stage = Stage(t=1)
    stage.join("a")
    for topics, pattern in (((), None), (("t",), "t")):
        with pytest.raises(IllegalState):
            stage.subscribe("a", *topics, pattern=pattern)
    with pytest.raises(InvalidName):
        stage.subscribe("a", "../t")
    with pytest.raises(UnknownTopic):
        stage.assign("a", part("x"))
    with pytest.raises(UnknownPartition):
        stage.assign("a", part("t", 1))


def test_the_same_subscription_again_changes_nothing():
    stage = Stage(t=1)
    stage.join("a", "t")
    stage.subscribe("a", "t")
    assert stage.records() == ()


def test_another_subscription_gives_up_what_it_no_longer_names_and_commits_it():
    stage = Stage(t=1, u=1)
    stage.join("a", "t", "u")
    stage.poll("a", most=3)
    stage.subscribe("a", "u")
    assert stage.owned("a") == {U0}
    assert (stage.committed(T0), stage.committed(U0)) == (3, None)
    assert stage.poll("a") == {U0: (3, 8)}


def test_who_unsubscribes_stays_and_owns_nothing():
    stage = Stage(t=1)
    stage.join("a", "t")
    stage.join("b", "t")
    unsubscribe(stage, "a")
    assert stage.owned("b") == {T0}
    assert stage.poll("a") == {}
    assert stage.group.members["a"].topics is None


def test_members_may_read_different_topics():
    stage = Stage(t=2, u=2)
    stage.join("a", "t")
    stage.join("b", "t", "u")
    assert stage.owned("a") == {T0}
    assert stage.owned("b") == {part("t", 1), U0, part("u", 1)}


def test_a_deleted_topic_takes_its_offsets_and_positions_with_it():
    stage = Stage(t=1, u=1)
    stage.join("a", "t", "u")
    stage.poll("a")
    stage.commit("a")
    stage.seek("a", {T0: 1})
    stage.change_topic("t", 0)
    assert stage.owned("a") == {U0}
    assert {record.key[2] for record in stage.group.table.values() if record.key[0] in ("offset", "position")} == {
        "u-1"
    }
    with pytest.raises(UnknownTopic):
        stage.commit("a", {T0: 1})


def test_a_topic_that_is_made_anew_begins_anew():
    stage = Stage(t=1)
    stage.join("a", "t")
    stage.poll("a")
    generation = stage.group.generation
    stage.change_topic("t", 1, "t-2")
    assert stage.group.generation == generation + 1
    assert stage.commit("a") == {}
    assert stage.poll("a") == {T0: (0, 5)}


def test_a_topic_made_anew_is_not_committed_before_the_group_knows_of_it():
    stage = Stage(t=1)
    stage.join("a", "t")
    stage.poll("a")
    stage.topics["t"] = stage.topics["t"]._replace(topic_id="t-2")
    with pytest.raises(PartitionNotOwned):
        stage.commit("a", {T0: 5})
    assert stage.commit("a") == {}


def test_an_assignment_goes_on_with_the_next_topic_of_the_name_from_its_beginning():
    stage = Stage(t=1)
    stage.join("a")
    stage.assign("a", T0)
    stage.poll("a")
    stage.change_topic("t", 1, "t-2")
    assert stage.commit("a") == {}
    assert stage.poll("a") == {T0: (0, 5)}


def test_offsets_of_a_dead_group_go_with_time_and_the_group_with_them():
    stage = Stage(t=1)
    stage.join("a", "t", session_timeout_ms=1000)
    stage.commit("a", {T0: 1})
    stage.pass_time(1000)
    assert retain(stage, OFFSETS_RETENTION_MS - 1) == 0
    assert retain(stage, 1) == 1
    assert not stage.groups.by_name


def test_offsets_that_a_member_reads_never_go():
    stage = Stage(t=1, u=1)
    stage.join("a", "t", "u")
    stage.join("b")
    stage.commit("a", {T0: 1, U0: 1})
    unsubscribe(stage, "a")
    stage.subscribe("a", "t")
    stage.assign("b", U0)
    assert retain(stage, OFFSETS_RETENTION_MS * 2) == 0
    stage.leave("b")
    assert retain(stage, 0) == 1
    assert (stage.committed(T0), stage.committed(U0)) == (1, None)
