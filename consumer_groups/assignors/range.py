"""Range assignor: divides the partitions of each topic separately into runs, one for each of its subscribers.

With n partitions and m subscribers each run has n // m of them, and the first n % m runs one more. So topics with equal
partitions and subscribers have equal partition numbers at the same member. Outcomes equal those of Kafka's
RangeAssignor without racks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumer_groups.assignors.subscribers import (
    Assignment,
    Subscriber,
    TopicPartition,
    group_topics,
    order_members,
    share,
)


def assign_range(subscribers: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    owned: dict[str, list[TopicPartition]] = {subscriber.member_id: [] for subscriber in subscribers}
    for topic, members in group_topics(order_members(subscribers), partitions).items():
        least, longer_runs = divmod(partitions[topic], len(members))
        start = 0
        for place, member in enumerate(members):
            end = start + least + (place < longer_runs)
            owned[member.member_id] += share(topic, range(start, end))
            start = end
    return {member_id: frozenset(its) for member_id, its in owned.items()}
