"""Balance first, then keep what was owned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumer_groups.assignors.subscribers import Assignment, Subscriber, TopicPartition, group_topics, order_members


def assign_sticky(subscribers: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    members = order_members(subscribers)
    owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    for topic, its in group_topics(members, partitions).items():
        for partition in range(partitions[topic]):
            one = TopicPartition(topic, partition)
            owners = [member for member in its if one in member.owned]
            best = owners[0] if owners else min(its, key=lambda member: len(owned[member.member_id]))
            owned[best.member_id].append(one)
    return {member_id: frozenset(its) for member_id, its in owned.items()}
