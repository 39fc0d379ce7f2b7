"""Which decisions are large: counted once, and counted again when something changed."""

from __future__ import annotations

import pytest

from consumer_groups.decisions.decision_weight import LARGE, has_much, is_large, lapsed_from_much, reads_much
from consumer_groups.model.assignment import TopicPartition, in_order, share
from consumer_groups.model.cluster import Cluster, Topic
from consumer_groups.model.options import parse_options
from consumer_groups.model.records import MemberRecord, gone
from consumer_groups.state.state import Group, Groups, replay

WAITS = "tests.support.group_assignors:wait_at_the_gate"
CLUSTER = Cluster([Topic("few", "1", LARGE - 1), Topic("many", "2", LARGE), Topic("one", "3", 1)])


def group_of(*members: MemberRecord) -> Group:
    groups = Groups(members)
    return groups.get("g")


def member(name: str, **more: object) -> MemberRecord:
    return MemberRecord(group="g", member_id=name, options=parse_options({})[1], joined_at_ms=0, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("more", "large"),
    [
        ({}, False),
        ({"topics": ("few",)}, False),
        ({"topics": ("few", "one")}, True),
        ({"topics": ("many",)}, True),
        ({"topics": ("absent",)}, False),
        ({"pattern": "one"}, True),
        ({"manual": tuple(("many", each) for each in range(LARGE))}, True),
        ({"manual": (("many", 1),)}, False),
    ],
)
def test_a_group_is_large_by_what_its_members_read(more: dict[str, object], large: bool):
    """A pattern that nobody has looked up yet may match everything."""
    assert is_large(group_of(member("a", **more)), CLUSTER) is large


def test_a_pattern_that_was_looked_up_counts_what_it_matches():
    cluster = Cluster(CLUSTER.topics.values())
    group = group_of(member("a", pattern="one"))
    assert is_large(group, cluster)
    cluster.matching("one")
    assert not is_large(group, cluster)


def test_what_several_members_read_together_counts_once_and_what_they_read_apart_is_added():
    assert not is_large(group_of(*(member(name, topics=("few",)) for name in "abc")), CLUSTER)
    assert is_large(group_of(member("a", topics=("few",)), member("b", topics=("one",))), CLUSTER)


def test_it_is_counted_again_when_members_come_or_go_or_topics_change():
    groups = Groups([member("a", topics=("few",))])
    assert not is_large(groups.get("g"), CLUSTER)
    replay(groups, member("b", topics=("many",)))
    assert is_large(groups.get("g"), CLUSTER)
    replay(groups, gone(("member", "g", "b")))
    assert not is_large(groups.get("g"), CLUSTER)
    assert is_large(groups.get("g"), Cluster([Topic("few", "1", LARGE)]))


def test_a_function_of_a_users_is_never_run_on_the_loop():
    options = parse_options({"partition.assignment.strategy": WAITS}, custom=[WAITS])[1]
    assert is_large(group_of(MemberRecord(group="g", member_id="a", options=options, joined_at_ms=0)), CLUSTER)


def test_a_member_that_lapsed_from_a_large_group_makes_a_large_decision_when_it_polls():
    group = group_of(member("a", topics=("many",), standing="lapsed"), member("b", topics=("many",)))
    assert lapsed_from_much(group, "a", CLUSTER)
    assert not lapsed_from_much(group, "b", CLUSTER)
    assert not lapsed_from_much(group, "nobody", CLUSTER)
    assert not has_much(group, "nobody")


def test_a_subscription_to_much_is_known_before_it_is_made():
    assert reads_much(CLUSTER, ("many",), None)
    assert reads_much(CLUSTER, (), "one.*")
    assert not reads_much(CLUSTER, ("few",), None)
    assert not reads_much(Cluster([Topic("one", "3", 1)]), (), ".*")


@pytest.mark.parametrize("count", [3, 300, 3000])
def test_partitions_are_sorted_however_many_there_are(count: int):
    given = {TopicPartition(f"t{each % 7}", each * 7919 % 10_007) for each in range(count)}
    assert in_order(given) == sorted(given)


def test_a_partition_is_the_same_object_wherever_it_is_named():
    assert all(one is other for one, other in zip(share("t", range(9)), share("t", range(9)), strict=True))
    assert share("u", [5, 2]) == [TopicPartition("u", 5), TopicPartition("u", 2)]
