"""Offsets of groups that a transaction moves: decided when they are added, and again when it is committed. Pure.

A partition may have got another owner in between: then the second decision fails, and with it the transaction. A
transaction has one `Moved` for each group, in which a later offset replaces an earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from consumer_groups.decisions.admin import decide_put_offsets
from consumer_groups.decisions.commits import Commit, Commitment, decide_commit
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster, Offsets
from consumer_groups.model.errors import IllegalState, PartitionNotOwned, UnknownInstance
from consumer_groups.state.decision import Decision
from consumer_groups.state.state import Group
from delta_log.model.errors import InvalidRequest, UnknownTopic

#: Measured size of an offset beside its texts: as stored, and as reported.
_ENTRY: Final = 500


@dataclass(frozen=True, slots=True)
class Moved:
    """Offsets of one group: of a member that owns the partitions, or, without a member, of a group without readers."""

    group: str
    offsets: Mapping[TopicPartition, Commitment]
    member_id: str | None = None
    generation: int | None = None
    #: ids of the topics that the offsets were decided for
    topic_ids: Mapping[TopicPartition, str] = field(default_factory=dict[TopicPartition, str])

    @property
    def name(self) -> str:
        return self.group

    @property
    def size(self) -> int:
        return sum(_ENTRY + len(at.topic) + len(each.metadata.encode()) for at, each in self.offsets.items())

    def join(self, before: Moved) -> Moved:
        """Add to earlier offsets; raises if they are of another member or generation."""
        if (before.member_id, before.generation) != (self.member_id, self.generation):
            why = "a transaction has offsets of one member of a group, in one generation"
            raise IllegalState(self.group, self.member_id or "nobody", why)
        topic_ids = {**before.topic_ids, **self.topic_ids}
        return replace(self, offsets={**before.offsets, **self.offsets}, topic_ids=topic_ids)

    def note(self) -> list[Mapping[str, Any]]:
        return [
            {"group": self.group, "topic": at.topic, "partition": at.partition, "next_offset": each.next_offset}
            for at, each in self.offsets.items()
        ]

    def decide(self, group: Group, cluster: Cluster, offsets: Offsets, now_ms: int) -> Decision[Any]:
        if self.member_id is None:
            return decide_put_offsets(group, self.offsets, cluster, offsets, now_ms)
        command = Commit(self.member_id, self.offsets, self.generation, keeps=True)
        return decide_commit(group, command, cluster, offsets, now_ms)

    def seen_in(self, cluster: Cluster) -> Moved:
        """Bind the offsets to the current topic ids, so that later topics of the same names do not count."""
        found = {at: topic.topic_id for at in self.offsets if (topic := cluster.get(at.topic)) is not None}
        return replace(self, topic_ids=found)

    def decide_still(self, group: Group, cluster: Cluster, offsets: Offsets, now_ms: int) -> Decision[Any]:
        """Decide again at commit: meanwhile the topic may have been replaced by one of its name, or the member gone."""
        for at, topic_id in self.seen_in(cluster).topic_ids.items():
            if self.topic_ids.get(at, topic_id) != topic_id:
                raise self._lost(group, at)
        try:
            return self.decide(group, cluster, offsets, now_ms)
        except UnknownInstance as gone:
            raise self._lost(group, min(self.offsets)) from gone

    def _lost(self, group: Group, at: TopicPartition) -> InvalidRequest:
        if self.member_id is None:
            return UnknownTopic(at.topic)
        return PartitionNotOwned(group.name, self.member_id, *at, group.generation)
