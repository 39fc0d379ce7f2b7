"""Estimated cost of a decision: a small one is made in the event loop, a large one in a thread (`aside`).

It counts partitions, as nearly all work of a decision is per partition. The estimate may be too high for a pattern not
matched yet, and is never too low. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from consumer_groups.model.cluster import Cluster
from consumer_groups.state.state import Group

#: From this many partitions on, a decision would block the loop for several milliseconds.
LARGE: Final = 250
#: Records kept for a partition: its offset, and mostly where it began.
_RECORDS_EACH: Final = 2


def is_large(group: Group, cluster: Cluster) -> bool:
    """Return whether a decision about all partitions of a group, read now or before, is large, or runs user code."""
    if group.weighed is not cluster:
        _weigh(group, cluster)
    return group.weight >= LARGE or len(group.table) >= LARGE * _RECORDS_EACH


def has_much(group: Group, member_id: str) -> bool:
    """Return whether a decision about the partitions of one member is large."""
    presence, member = group.presences.get(member_id), group.members.get(member_id)
    if presence is None or member is None:
        return False
    return len(presence.places) >= LARGE or len(member.manual or ()) >= LARGE


def reads_much(cluster: Cluster, topics: Iterable[str], pattern: str | None) -> bool:
    """Return whether a subscription is large; a pattern not matched yet counts as all partitions there are."""
    return _count(cluster, topics, pattern)[0] >= LARGE


def _weigh(group: Group, cluster: Cluster) -> None:
    weight, sure, seen = 0, True, set[object]()
    for member in group.members.values():
        if any(":" in name for name in member.options.partition_assignment_strategy):
            weight = LARGE
        subscription = member.topics if member.pattern is None else member.pattern
        if subscription is not None and subscription not in seen:
            seen.add(subscription)
            count, is_sure = _count(cluster, member.topics or (), member.pattern)
            weight, sure = weight + count, sure and is_sure
        weight = max(weight, len(member.manual or ()))
        if weight >= LARGE:
            break
    group.weight = max(weight, len(group.wanted), len(group.owners))
    group.weighed = cluster if sure else None


def _count(cluster: Cluster, topics: Iterable[str], pattern: str | None) -> tuple[int, bool]:
    """Number of partitions, and whether it is exact."""
    if pattern is not None:
        if cluster.partitions < LARGE:
            return cluster.partitions, True
        matched = cluster.matched(pattern)
        if matched is None:
            return cluster.partitions, False
        topics = matched
    found = 0
    for name in topics:
        topic = cluster.get(name)
        found += 0 if topic is None else topic.partitions
        if found >= LARGE:
            break
    return found, True


def lapsed_from_much(group: Group, member_id: str, cluster: Cluster) -> bool:
    """Return whether a member has lapsed, so that its next poll is a large decision."""
    member = group.members.get(member_id)
    return member is not None and member.standing == "lapsed" and is_large(group, cluster)
