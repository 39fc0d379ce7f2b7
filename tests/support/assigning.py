"""Short ways to write down groups and what they own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import inf

from consumer_groups.model.assignment import Assignment, Subscriber, TopicPartition


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
    return frozenset(tp for one in subscribers for tp in one.owned - assignment[one.member_id])


def believed(subscribers: Sequence[Subscriber]) -> dict[str, frozenset[TopicPartition]]:
    """What each member owned, without what others claim too and what it may not have."""
    claims = Counter(tp for one in subscribers for tp in one.owned if tp.topic in one.topics)
    return {
        one.member_id: frozenset(tp for tp in one.owned if tp.topic in one.topics and claims[tp] == 1)
        for one in subscribers
    }


def count_kept(subscribers: Sequence[Subscriber], assignment: Assignment) -> int:
    return sum(len(its & assignment[member_id]) for member_id, its in believed(subscribers).items())


def find_better(subscribers: Sequence[Subscriber], assignment: Assignment) -> tuple[str, str] | None:
    """Find two members between whom, over others if need be, a partition could go for the better.

    It is better where loads become more even, or stay as even while more is kept. If there are none the assignment
    is the best there is: the certificate of a minimum-cost flow, by Floyd and Warshall.
    """
    held = {name: Counter(tp.topic for tp in its) for name, its in assignment.items()}
    present = frozenset[TopicPartition]().union(*assignment.values())
    owned = {name: Counter(tp.topic for tp in its & present) for name, its in believed(subscribers).items()}
    topics = {one.member_id: one.topics for one in subscribers}
    cost = {
        (giver, taker): min(
            (
                (held[giver][topic] <= owned[giver][topic]) - (held[taker][topic] < owned[taker][topic])
                for topic in held[giver]
                if topic in topics[taker]
            ),
            default=inf,
        )
        for giver, taker in product(topics, topics)
    }
    for over, giver, taker in product(topics, repeat=3):
        cost[giver, taker] = min(cost[giver, taker], cost[giver, over] + cost[over, taker])
    for (giver, taker), price in cost.items():
        gap = len(assignment[giver]) - len(assignment[taker]) if giver != taker else 1
        if price < inf and (gap > 1 or (gap == 1 and price < 0)):
            return giver, taker
    return None
