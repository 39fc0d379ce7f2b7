"""The outcomes of Kafka's own RangeAssignor and RoundRobinAssignor, for the same groups."""

from __future__ import annotations

import pytest

from consumer_groups.model.assignment import ASSIGNORS, check_assignment
from tests.support.assigning import member, outcome

EVEN = {"topic1": 3, "topic2": 3}
BOTH = "topic1 topic2"

# Topics, members, and what each owns under range and under roundrobin.
VECTORS = {
    "no topic": ({}, [member("c1", "")], outcome(c1=""), outcome(c1="")),
    "a topic that is not there": ({}, [member("c1", "topic1")], outcome(c1=""), outcome(c1="")),
    "a topic without partitions": ({"topic1": 0}, [member("c1", "topic1")], outcome(c1=""), outcome(c1="")),
    "one member": (
        {"topic1": 3},
        [member("c1", "topic1")],
        outcome(c1="topic1-0, topic1-1, topic1-2"),
        outcome(c1="topic1-0, topic1-1, topic1-2"),
    ),
    "a topic that nobody wants": (
        {"topic1": 3, "other": 3},
        [member("c1", "topic1")],
        outcome(c1="topic1-0, topic1-1, topic1-2"),
        outcome(c1="topic1-0, topic1-1, topic1-2"),
    ),
    "one member of two topics": (
        {"topic1": 1, "topic2": 2},
        [member("c1", BOTH)],
        outcome(c1="topic1-0, topic2-0, topic2-1"),
        outcome(c1="topic1-0, topic2-0, topic2-1"),
    ),
    "more members than partitions": (
        {"topic1": 1},
        [member("c1", "topic1"), member("c2", "topic1")],
        outcome(c1="topic1-0", c2=""),
        outcome(c1="topic1-0", c2=""),
    ),
    "as many members as partitions": (
        {"topic1": 2},
        [member("c1", "topic1"), member("c2", "topic1")],
        outcome(c1="topic1-0", c2="topic1-1"),
        outcome(c1="topic1-0", c2="topic1-1"),
    ),
    "mixed topics": (
        {"topic1": 3, "topic2": 2},
        [member("c1", "topic1"), member("c2", BOTH), member("c3", "topic1")],
        outcome(c1="topic1-0", c2="topic1-1, topic2-0, topic2-1", c3="topic1-2"),
        outcome(c1="topic1-0", c2="topic1-1, topic2-0, topic2-1", c3="topic1-2"),
    ),
    "two members of two topics": (
        EVEN,
        [member("c1", BOTH), member("c2", BOTH)],
        outcome(c1="topic1-0, topic1-1, topic2-0, topic2-1", c2="topic1-2, topic2-2"),
        outcome(c1="topic1-0, topic1-2, topic2-1", c2="topic1-1, topic2-0, topic2-2"),
    ),
    "static members go by their instance ids": (
        EVEN,
        [member("b", BOTH, instance="instance1"), member("a", BOTH, instance="instance2")],
        outcome(b="topic1-0, topic1-1, topic2-0, topic2-1", a="topic1-2, topic2-2"),
        outcome(b="topic1-0, topic1-2, topic2-1", a="topic1-1, topic2-0, topic2-2"),
    ),
    "static members come before the others": (
        EVEN,
        [member("b", BOTH, instance="instance1"), member("a", BOTH)],
        outcome(b="topic1-0, topic1-1, topic2-0, topic2-1", a="topic1-2, topic2-2"),
        outcome(b="topic1-0, topic1-2, topic2-1", a="topic1-1, topic2-0, topic2-2"),
    ),
    "three static members and one other": (
        {"topic1": 5, "topic2": 4},
        [*(member(f"c{at}", BOTH, instance=f"instance{at}") for at in (1, 2, 3)), member("c4", BOTH)],
        outcome(
            c1="topic1-0, topic1-1, topic2-0",
            c2="topic1-2, topic2-1",
            c3="topic1-3, topic2-2",
            c4="topic1-4, topic2-3",
        ),
        outcome(
            c1="topic1-0, topic1-4, topic2-3",
            c2="topic1-1, topic2-0",
            c3="topic1-2, topic2-1",
            c4="topic1-3, topic2-2",
        ),
    ),
    "equal subscriptions of unequal topics": (
        {"t1": 6, "t2": 7, "t3": 2},
        [member(name, "t1 t2 t3") for name in ("c1", "c2", "c3")],
        outcome(
            c1="t1-0, t1-1, t2-0, t2-1, t2-2, t3-0",
            c2="t1-2, t1-3, t2-3, t2-4, t3-1",
            c3="t1-4, t1-5, t2-5, t2-6",
        ),
        outcome(
            c1="t1-0, t1-3, t2-0, t2-3, t2-6",
            c2="t1-1, t1-4, t2-1, t2-4, t3-0",
            c3="t1-2, t1-5, t2-2, t2-5, t3-1",
        ),
    ),
    "unequal subscriptions of unequal topics": (
        {"t1": 6, "t2": 7, "t3": 2},
        [member("c1", "t1 t2 t3"), member("c2", "t1 t2 t3"), member("c3", "t1 t3")],
        outcome(
            c1="t1-0, t1-1, t2-0, t2-1, t2-2, t2-3, t3-0",
            c2="t1-2, t1-3, t2-4, t2-5, t2-6, t3-1",
            c3="t1-4, t1-5",
        ),
        outcome(
            c1="t1-0, t1-3, t2-0, t2-2, t2-4, t2-6",
            c2="t1-1, t1-4, t2-1, t2-3, t2-5, t3-0",
            c3="t1-2, t1-5, t3-1",
        ),
    ),
    "subscriptions that round robin serves badly": (
        {"t0": 1, "t1": 2, "t2": 3},
        [member("c0", "t0"), member("c1", "t0 t1"), member("c2", "t0 t1 t2")],
        outcome(c0="t0-0", c1="t1-0", c2="t1-1, t2-0, t2-1, t2-2"),
        outcome(c0="t0-0", c1="t1-0", c2="t1-1, t2-0, t2-1, t2-2"),
    ),
    "subscriptions that round robin leaves a member without": (
        {"topic1": 2, "topic2": 1, "topic3": 2, "topic4": 1, "topic5": 2},
        [
            member("c1", "topic1 topic2 topic3 topic4 topic5"),
            member("c2", "topic1 topic3 topic5"),
            member("c3", "topic1 topic3 topic5"),
            member("c4", "topic1 topic2 topic3 topic4 topic5"),
        ],
        outcome(c1="topic1-0, topic2-0, topic3-0, topic4-0, topic5-0", c2="topic1-1, topic3-1, topic5-1", c3="", c4=""),
        outcome(c1="topic1-0, topic3-0, topic5-0", c2="topic1-1, topic3-1, topic5-1", c3="", c4="topic2-0, topic4-0"),
    ),
    "topics side by side": (
        {"t1": 6, "t2": 6, "t3": 2, "t4": 2, "t5": 4, "t6": 4},
        [member(name, "t1 t2 t3 t4 t5 t6 t7 t8 t9") for name in ("c1", "c2", "c3")],
        outcome(
            c1="t1-0, t1-1, t2-0, t2-1, t3-0, t4-0, t5-0, t5-1, t6-0, t6-1",
            c2="t1-2, t1-3, t2-2, t2-3, t3-1, t4-1, t5-2, t6-2",
            c3="t1-4, t1-5, t2-4, t2-5, t5-3, t6-3",
        ),
        outcome(
            c1="t1-0, t1-3, t2-0, t2-3, t3-0, t4-1, t5-2, t6-1",
            c2="t1-1, t1-4, t2-1, t2-4, t3-1, t5-0, t5-3, t6-2",
            c3="t1-2, t1-5, t2-2, t2-5, t4-0, t5-1, t6-0, t6-3",
        ),
    ),
}


@pytest.mark.parametrize(("partitions", "subscribers", "ranged", "dealt"), VECTORS.values(), ids=VECTORS)
def test_outcomes_are_those_of_kafka(partitions, subscribers, ranged, dealt):
    for name, expected in (("range", ranged), ("roundrobin", dealt)):
        check_assignment(subscribers, partitions, expected)
        assert ASSIGNORS[name](subscribers, partitions) == expected
        assert ASSIGNORS[name](subscribers[::-1], partitions) == expected


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_keep_their_partitions_when_they_come_back_under_other_ids(name):
    first = [member(f"c{at}", BOTH, instance=f"instance{at}") for at in (1, 2, 3)]
    second = [
        member("c9", BOTH, instance="instance1"),
        member("c0", BOTH, instance="instance2"),
        member("c5", BOTH, instance="instance3"),
    ]
    before, after = ASSIGNORS[name](first, EVEN), ASSIGNORS[name](second, EVEN)
    assert [before[one.member_id] for one in first] == [after[one.member_id] for one in second]


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_another_dynamic_member_takes_the_place_of_the_one_before(name):
    static = [member(f"c{at}", BOTH, instance=f"instance{at}") for at in (1, 2, 3)]
    before, after = (ASSIGNORS[name]([*static, member(last, BOTH)], EVEN) for last in ("c4", "c5"))
    assert before.pop("c4") == after.pop("c5")
    assert before == after


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_members_are_in_the_order_of_their_utf_16_code_units_as_in_java(name):
    astral, private = "\N{GRINNING FACE}", "\ue000"
    assert private < astral
    owned = ASSIGNORS[name]([member(private, "t"), member(astral, "t")], {"t": 1})
    assert owned == outcome(**{astral: "t-0", private: ""})


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_an_instance_id_may_be_one_that_sorts_behind_every_member_id(name):
    owned = ASSIGNORS[name]([member("a", "t"), member("b", "t", instance="\uffff")], {"t": 1})
    assert owned == outcome(a="", b="t-0")
