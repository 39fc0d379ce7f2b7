"""Short ways to write down groups and what they own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import starmap

from consumer_groups.assignment import Assignment, Subscriber, TopicPartition


def partitions_of(text: str) -> frozenset[TopicPartition]:
    """Read `"orders-0, orders-1"`."""
    names = (one.strip().rpartition("-") for one in text.split(",") if one.strip())
    return frozenset(TopicPartition(topic, int(partition)) for topic, _, partition in names)


def member(member_id: str, topics: str, owned: str = "", instance: str | None = None) -> Subscriber:
    return Subscriber(member_id, frozenset(topics.split()), instance, partitions_of(owned))


def outcome(**owned: str) -> dict[str, frozenset[TopicPartition]]:
    return {member_id: partitions_of(its) for member_id, its in owned.items()}


def with_owned(subscribers: Iterable[Subscriber], assignment: Assignment) -> list[Subscriber]:
    """The same group after it has been given this; a member without an entry owns nothing yet."""
    return [
        Subscriber(one.member_id, one.topics, one.instance_id, assignment.get(one.member_id, frozenset()))
        for one in subscribers
    ]


def every_partition(subscribers: Iterable[Subscriber], partitions: Mapping[str, int]) -> set[TopicPartition]:
    topics = {topic for one in subscribers for topic in one.topics}
    return {TopicPartition(topic, number) for topic in topics for number in range(partitions.get(topic, 0))}


def sum_of_squares(assignment: Assignment) -> int:
    return sum(len(its) ** 2 for its in assignment.values())


def taken_away(subscribers: Sequence[Subscriber], assignment: Assignment) -> frozenset[TopicPartition]:
    """What members owned and own no longer."""
    return frozenset[TopicPartition]().union(*starmap(_lost, ((one, assignment) for one in subscribers)))


def _lost(one: Subscriber, assignment: Assignment) -> frozenset[TopicPartition]:
    return one.owned - assignment[one.member_id]
