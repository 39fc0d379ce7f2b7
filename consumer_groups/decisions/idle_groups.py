"""Cleanup of groups when topics change, and when a group is unused.

Offsets, positions and marks are deleted with their topic; a later topic of the same name has another id. Those of a
group without members expire some days after its last use; those of partitions that a member reads never do.
"""

from __future__ import annotations

from typing import Final

from consumer_groups.decisions.positions import drop_skips
from consumer_groups.decisions.rebalance import retarget, subscribed_topics
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster
from consumer_groups.model.records import OffsetRecord, Record, gone
from consumer_groups.state.decision import Decision
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.state import Group

#: Kafka's offsets.retention.minutes.
OFFSETS_RETENTION_MS: Final = 7 * 86_400_000


def decide_topics_changed(group: Group, cluster: Cluster, now_ms: int) -> Decision[None]:
    """Adapt a group to topics that came, went or grew; to be called for every group, and after loading."""
    draft = Draft(group, cluster, now_ms)
    for topic_id in group.offsets.keys() - cluster.ids:
        for record in group.offsets[topic_id].values():
            draft.drop(record.key)
    for position in group.positions.values():
        if position.topic_id not in cluster.ids:
            draft.drop(position.key)
    for topic_id, partition in group.skips:
        if topic_id not in cluster.ids:
            drop_skips(draft, topic_id, partition)
    for key in [key for key in group.table if key[0] == "attempts" and key[2] not in cluster.ids]:
        draft.drop(key)
    if _differ(draft):
        retarget(draft)
    return draft.decide(None)


def decide_retention(
    group: Group, cluster: Cluster, now_ms: int, retention_ms: int = OFFSETS_RETENTION_MS
) -> Decision[tuple[OffsetRecord, ...]]:
    """Expire offsets unused for `retention_ms`, and the group if nothing is left; answers the expired offsets."""
    draft = Draft(group, cluster, now_ms)
    live = _read_by_members(draft)
    used_ms = group.empty_since_ms or 0
    offsets = [record for its in group.offsets.values() for record in its.values()]
    expired = [
        record
        for record in offsets
        if TopicPartition(record.topic, record.partition) not in live
        and max(record.committed_at_ms, used_ms) + retention_ms <= now_ms
    ]
    idle = not group.members and used_ms + retention_ms <= now_ms
    if idle and len(expired) == len(offsets):
        records: tuple[Record, ...] = tuple(gone(key) for key in group.table)
        return Decision(group.name, tuple(expired), group.generation, records)
    for record in expired:
        draft.drop(record.key)
        drop_skips(draft, record.topic_id, record.partition)
        draft.drop(("attempts", group.name, record.topic_id, record.partition))
    return draft.decide(tuple(expired))


def _differ(draft: Draft) -> bool:
    """Return whether the topics that members read differ from those of the assignment."""
    present = frozenset[str]().union(
        *(subscribed_topics(draft, each) for each in draft.members.values() if each.standing != "lapsed")
    )
    known = draft.topics
    return present != frozenset(known) or any(
        (known[name].topic_id, known[name].partitions) != draft.cluster.topics[name][1:] for name in present
    )


def _read_by_members(draft: Draft) -> set[TopicPartition]:
    live: set[TopicPartition] = set()
    for member in draft.members.values():
        live.update(TopicPartition(*each) for each in member.manual or ())
        for name in subscribed_topics(draft, member):
            live.update(TopicPartition(name, number) for number in range(draft.cluster.topics[name].partitions))
    return live
