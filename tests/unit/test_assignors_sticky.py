"""What sticky keeps, what it moves and why."""

from __future__ import annotations

import pytest

from consumer_groups.model.assignment import ASSIGNORS, check_assignment
from tests.support.assigning import count_kept, find_better, member, outcome, sum_of_squares, taken_away, with_owned

BOTH = "topic1 topic2"

# Topics, members with what they owned, and what each owns then. Kafka's sticky assignor gives the same here.
VECTORS = {
    "no topic": ({}, [member("c1", "")], outcome(c1="")),
    "a topic that is not there": ({}, [member("c1", "topic1")], outcome(c1="")),
    "nobody owned anything": (
        {"topic1": 3, "topic2": 3},
        [member("c1", BOTH), member("c2", BOTH)],
        outcome(c1="topic1-0, topic1-2, topic2-1", c2="topic1-1, topic2-0, topic2-2"),
    ),
    "what is no longer wanted is given up": (
        {"topic1": 2, "other": 2},
        [member("c1", "topic1", "topic1-0, topic1-1, other-0, other-1")],
        outcome(c1="topic1-0, topic1-1"),
    ),
    "a free partition fills up who has least": (
        {"topic1": 2, "topic2": 3},
        [member("c1", BOTH, "topic1-0, topic2-1"), member("c2", BOTH, "topic1-1, topic2-2")],
        outcome(c1="topic1-0, topic2-0, topic2-1", c2="topic1-1, topic2-2"),
    ),
    "one more may be kept by one only": (
        {"topic1": 2, "topic2": 2},
        [member("c1", BOTH, "topic1-0, topic2-0"), member("c2", BOTH, "topic1-1, topic2-1"), member("c3", BOTH)],
        outcome(c1="topic1-0", c2="topic1-1, topic2-1", c3="topic2-0"),
    ),
    "everybody keeps what is less than a share": (
        {"topic1": 2, "topic2": 3},
        [member("c1", BOTH, "topic1-0"), member("c2", BOTH, "topic1-1"), member("c3", BOTH)],
        outcome(c1="topic1-0, topic2-1", c2="topic1-1, topic2-2", c3="topic2-0"),
    ),
    "who joins takes one of three": (
        {"t": 3},
        [member("c1", "t", "t-0, t-1, t-2"), member("c2", "t")],
        outcome(c1="t-0, t-1", c2="t-2"),
    ),
    "two join": (
        {"topic1": 3, "topic2": 4},
        [
            member("c1", BOTH, "topic1-0, topic1-2, topic2-1, topic2-3"),
            member("c2", BOTH, "topic1-1, topic2-0, topic2-2"),
            member("c3", BOTH),
            member("c4", BOTH),
        ],
        outcome(c1="topic1-0, topic1-2", c2="topic1-1, topic2-0", c3="topic2-1, topic2-3", c4="topic2-2"),
    ),
    "what is free suffices for the new one": (
        {"t": 4},
        [member("c1", "t", "t-0, t-1"), member("c2", "t", "t-2"), member("c3", "t")],
        outcome(c1="t-0, t-1", c2="t-2", c3="t-3"),
    ),
    "what two claim is nobody's": (
        {"t": 3},
        [member("c1", "t", "t-0, t-1"), member("c2", "t", "t-0, t-2"), member("c3", "t")],
        outcome(c1="t-1", c2="t-2", c3="t-0"),
    ),
    "nobody moves for a new member that takes the free ones": (
        {"topic": 3, "topic1": 3, "topic2": 3, "topic3": 3},
        [
            member("c1", "topic topic1 topic2 topic3"),
            member("c2", "topic topic1 topic2 topic3", "topic-0, topic2-0, topic1-0"),
            member("c3", "topic topic1 topic2 topic3", "topic3-2, topic2-2, topic1-1"),
            member("c4", "topic topic1 topic2 topic3", "topic3-1, topic-1, topic-2"),
        ],
        outcome(
            c1="topic1-2, topic2-1, topic3-0",
            c2="topic-0, topic2-0, topic1-0",
            c3="topic3-2, topic2-2, topic1-1",
            c4="topic3-1, topic-1, topic-2",
        ),
    ),
}


@pytest.mark.parametrize(("partitions", "subscribers", "expected"), VECTORS.values(), ids=VECTORS)
def test_sticky_gives(partitions, subscribers, expected):
    check_assignment(subscribers, partitions, expected)
    assert ASSIGNORS["sticky"](subscribers, partitions) == expected
    assert ASSIGNORS["sticky"](subscribers[::-1], partitions) == expected


def test_subscriptions_that_round_robin_serves_badly_are_balanced():
    partitions = {"topic1": 2, "topic2": 1, "topic3": 2, "topic4": 1, "topic5": 2}
    every, odd = "topic1 topic2 topic3 topic4 topic5", "topic1 topic3 topic5"
    subscribers = [member("c1", every), member("c2", odd), member("c3", odd), member("c4", every)]
    given = ASSIGNORS["sticky"](subscribers, partitions)
    assert [len(given[one.member_id]) for one in subscribers] == [2, 2, 2, 2]


def test_a_member_with_few_topics_has_them_to_itself_while_others_have_enough():
    subscribers = [member("c1", "topic1"), member("c2", BOTH), member("c3", "topic1")]
    given = ASSIGNORS["sticky"](subscribers, {"topic1": 3, "topic2": 2})
    assert given["c2"] == outcome(c2="topic2-0, topic2-1")["c2"]


def test_one_partition_of_a_row_of_members_moves_so_that_the_next_can_give_one_too():
    """The new member wants a topic of `b` only, `b` has no more than its share, and `a` has too much."""
    subscribers = [
        member("a", "x", "x-0, x-1, x-2, x-3"),
        member("b", "x y", "y-0, y-1"),
        member("new", "y"),
    ]
    given = ASSIGNORS["sticky"](subscribers, {"x": 4, "y": 2})
    assert sorted(map(len, given.values())) == [2, 2, 2]
    assert {one.topic for one in given["new"]} == {"y"}
    assert given["a"] < subscribers[0].owned


def test_a_partition_comes_back_to_its_owner_when_another_way_to_even_loads_is_found():
    """At first `a` gives two to `b`; then `b` gives two to `new`, and one of the first two returns."""
    subscribers = [member("a", "x", "x-0, x-1, x-2, x-3"), member("b", "x y", "y-0, y-1, y-2"), member("new", "y")]
    given = ASSIGNORS["sticky"](subscribers, {"x": 4, "y": 3})
    assert given == outcome(a="x-0, x-1, x-2", b="x-3, y-0", new="y-1, y-2")


def test_no_more_come_back_to_an_owner_than_were_its_own():
    subscribers = [
        member("a", "u v w", "u-0, u-2, u-3, u-4, w-3, w-4"),
        member("b", "u v w"),
        member("c", "t u w", "t-0, t-2, t-4, t-5, t-6, u-1, w-2"),
        member("d", "t u w", "w-1"),
        member("e", "t u v", "t-1, v-0"),
        member("f", "t v", "t-3"),
    ]
    given = ASSIGNORS["sticky"](subscribers, {"t": 7, "u": 5, "v": 1, "w": 5})
    assert (sum_of_squares(given), count_kept(subscribers, given)) == (54, 10)
    assert find_better(subscribers, given) is None


def test_a_partition_of_a_vanished_topic_or_beyond_the_end_is_forgotten():
    subscribers = [member("a", "t gone", "t-0, t-7, gone-0, gone-1, gone-2"), member("b", "t", "t-1")]
    assert ASSIGNORS["sticky"](subscribers, {"t": 2}) == outcome(a="t-0", b="t-1")


def test_the_claim_of_a_member_that_no_longer_subscribes_does_not_spoil_the_one_of_another():
    subscribers = [member("a", "t", "t-0"), member("b", "u", "t-0, u-0")]
    assert ASSIGNORS["sticky"](subscribers, {"t": 1, "u": 1}) == outcome(a="t-0", b="u-0")


def test_a_deleted_only_topic_leaves_everybody_with_nothing():
    assert ASSIGNORS["sticky"]([member("a", "t", "t-0, t-1")], {}) == outcome(a="")


def test_a_group_of_nobody_is_given_nothing():
    assert {name: assign([], {"t": 3}) for name, assign in ASSIGNORS.items()} == {name: {} for name in ASSIGNORS}


def test_a_new_topic_moves_nothing_of_the_old_one():
    subscribers = [member("c1", "t u", "t-0, t-2"), member("c2", "t u", "t-1")]
    given = ASSIGNORS["sticky"](subscribers, {"t": 3, "u": 3})
    assert sorted(map(len, given.values())) == [3, 3]
    assert taken_away(subscribers, given) == frozenset()


def test_new_partitions_move_none_of_the_old_ones():
    subscribers = [member(f"c{at}", "t", f"t-{at}") for at in range(5)]
    given = ASSIGNORS["sticky"](subscribers, {"t": 12})
    assert sorted(map(len, given.values())) == [2, 2, 2, 3, 3]
    assert taken_away(subscribers, given) == frozenset()


def test_both_sticky_names_give_the_same():
    subscribers = [member("a", "t", "t-0, t-1, t-2"), member("b", "t")]
    assert ASSIGNORS["cooperative-sticky"](subscribers, {"t": 5}) == ASSIGNORS["sticky"](subscribers, {"t": 5})


def test_a_large_group_moves_no_more_than_the_share_of_who_joins():
    topics = {f"t{at}": 100 for at in range(100)}
    old = [member(f"m{at:03}", " ".join(topics)) for at in range(99)]
    before = ASSIGNORS["sticky"](old, topics)
    group = [*with_owned(old, before), member("new", " ".join(topics))]
    after = ASSIGNORS["sticky"](group, topics)
    check_assignment(group, topics, after)
    assert {len(its) for its in after.values()} == {100}
    assert taken_away(group, after) == after["new"]


def test_who_owned_everything_of_a_large_group_keeps_its_share():
    topics = {f"t{at}": 100 for at in range(100)}
    group = [member(f"m{at:03}", " ".join(list(topics)[at % 7 :])) for at in range(100)]
    hoarder = with_owned(group, {"m000": frozenset().union(*ASSIGNORS["range"](group, topics).values())})
    after = ASSIGNORS["sticky"](hoarder, topics)
    check_assignment(hoarder, topics, after)
    assert {len(its) for its in after.values()} == {100}
    assert len(taken_away(hoarder, after)) == 9_900
