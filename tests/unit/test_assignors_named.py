"""Which assignors can be named, and what is asked of the outcome of one."""

from __future__ import annotations

import sys

import pytest

from consumer_groups.model.assignment import (
    ASSIGNORS,
    TopicPartition,
    UnknownAssignor,
    UnlawfulAssignment,
    assignor_named,
    check_assignment,
)
from delta_log.model.errors import InvalidConfig
from tests.support.assigning import member, outcome

CUSTOM = """
from consumer_groups.model.assignment import TopicPartition

LIMIT = 3


def all_to_the_last(subscribers, partitions):
    last = max(subscribers, key=lambda one: one.member_id)
    everything = [TopicPartition(topic, at) for topic in partitions for at in range(partitions[topic])]
    return {one.member_id: everything if one is last else () for one in subscribers}


def plain_pairs(subscribers, partitions):
    return {one.member_id: [("t", 0), ("t", 1)] for one in subscribers}


def nothing(subscribers, partitions):
    return None


def failing(subscribers, partitions):
    return {}[0]


def forgetful(subscribers, partitions):
    return {one.member_id: [] for one in subscribers}


def greedy(subscribers, partitions):
    subscribers[0].topics.clear()


def meddling(subscribers, partitions):
    partitions["t"] = 0
"""


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """A module of a user's own, on the path."""
    (tmp_path / "their_rules.py").write_text(CUSTOM)
    (tmp_path / "other_rules.py").write_text(CUSTOM)
    (tmp_path / "broken_rules.py").write_text("1 / 0\n")
    (tmp_path / "leaving_rules.py").write_text("raise SystemExit(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "their_rules"
    for name in ("their_rules", "other_rules"):
        sys.modules.pop(name, None)


def test_these_assignors_are_there():
    assert set(ASSIGNORS) == {"range", "roundrobin", "sticky", "cooperative-sticky"}
    assert all(assignor_named(name) is assign for name, assign in ASSIGNORS.items())


def test_capital_letters_do_not_make_another_assignor():
    assert assignor_named("roundRobin") is ASSIGNORS["roundrobin"]


@pytest.mark.parametrize("name", ["", "rang", "range ", "org.apache.kafka.clients.consumer.RangeAssignor"])
def test_an_unknown_name_is_refused_with_those_that_there_are(name):
    with pytest.raises(UnknownAssignor) as caught:
        assignor_named(name)
    assert isinstance(caught.value, InvalidConfig)
    assert (caught.value.setting, caught.value.value) == ("partition.assignment.strategy", name)
    assert all(known in str(caught.value) for known in ASSIGNORS)
    assert caught.value.known == tuple(ASSIGNORS)


def test_a_function_of_a_module_can_be_named(rules):
    assign = assignor_named(f"{rules}:all_to_the_last")
    assert assign([member("b", "t"), member("a", "t")], {"t": 2}) == outcome(a="", b="t-0, t-1")


def test_what_a_custom_function_gives_is_made_of_topic_partitions(rules):
    given = assignor_named(f"{rules}:plain_pairs")([member("a", "t")], {"t": 2})
    assert all(isinstance(one, TopicPartition) for one in given["a"])


@pytest.mark.parametrize(
    "name",
    [
        "their_rules:",
        ":all_to_the_last",
        "their_rules:absent",
        "their_rules:LIMIT",
        "their_rules:TopicPartition",
        "their_rules:all_to_the_last:more",
        "their rules:x",
        ".their_rules:all_to_the_last",
        "not_there_at_all:x",
        "broken_rules:x",
        "leaving_rules:x",
        "os:system",
    ],
)
def test_a_name_that_leads_to_no_function_is_refused(rules, name):
    with pytest.raises(UnknownAssignor) as caught:
        assignor_named(name)
    assert caught.value.value == name


def test_only_those_custom_assignors_are_loaded_that_may_be(rules):
    name = f"{rules}:all_to_the_last"
    assert assignor_named(name, custom=[name])
    with pytest.raises(UnknownAssignor):
        assignor_named("other_rules:all_to_the_last", custom=[name])
    assert "other_rules" not in sys.modules


@pytest.mark.parametrize("function", ["nothing", "failing", "forgetful", "greedy", "meddling"])
def test_a_custom_assignor_without_a_lawful_outcome_is_told_so(rules, function):
    subscribers = [member("a", "t")]
    with pytest.raises(UnlawfulAssignment):
        assignor_named(f"{rules}:{function}")(subscribers, {"t": 2})
    assert subscribers == [member("a", "t")]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (outcome(a="t-0, t-1"), "'b'"),
        (outcome(a="t-0, t-1, u-0", b="", c=""), "'c'"),
        (outcome(a="t-0", b="u-0"), "1 of 3 partitions"),
        (outcome(a="t-0, t-1", b="u-0, t-1"), "without being subscribed"),
        (outcome(a="t-0, t-1, t-2", b="u-0"), "not there"),
        (outcome(a="t-0, t-1, v-0", b="u-0"), "not there"),
        ({**outcome(b="u-0"), "a": frozenset({TopicPartition("t", -1)})}, "not there"),
        (outcome(a="t-0, t-1, u-0", b="u-0"), "given to both"),
    ],
)
def test_an_assignment_against_the_law_is_found(given, why):
    with pytest.raises(UnlawfulAssignment, match=why):
        check_assignment([member("a", "t u"), member("b", "u gone")], {"t": 2, "u": 1}, given)


def test_a_lawful_assignment_passes_whoever_made_it():
    check_assignment(
        [member("a", "t u"), member("b", "u gone")], {"t": 2, "u": 1, "w": 9}, outcome(a="t-0, t-1, u-0", b="")
    )


def test_many_strangers_are_not_all_told():
    with pytest.raises(UnlawfulAssignment, match="and 2 more"):
        check_assignment([member(name, "t") for name in "abcde"], {"t": 1}, {})
