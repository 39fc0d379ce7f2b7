"""Round-robin assignor: deals out all partitions of all topics in turn, skipping members not subscribed to a topic.

The turn goes on from one topic to the next. Outcomes equal those of Kafka's RoundRobinAssignor.
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


def assign_round_robin(subscribers: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    members = order_members(subscribers)
    owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    turn = 0
    for topic in group_topics(members, partitions):
        for partition in share(topic, range(partitions[topic])):
            while topic not in members[turn].topics:
                turn = (turn + 1) % len(members)
            owned[members[turn].member_id].append(partition)
            turn = (turn + 1) % len(members)
    return {member_id: frozenset(its) for member_id, its in owned.items()}
