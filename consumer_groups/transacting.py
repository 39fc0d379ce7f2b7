"""Offsets of groups that a transaction moves: decided when they are added, and again when it is committed. Pure.

What was read may have become another's in between: then the second decision refuses, and with it the transaction. Of
a group a transaction has one `Moved`, of which what was added later counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from consumer_groups.admin import decide_put_offsets
from consumer_groups.assignment import TopicPartition
from consumer_groups.cluster import Cluster, Offsets
from consumer_groups.commits import Commit, Commitment, decide_commit
from consumer_groups.decision import Decision
from consumer_groups.errors import IllegalState, PartitionNotOwned, UnknownInstance
from consumer_groups.state import Group

#: What an offset takes beside its texts, measured: as it is kept, and as it is told.
_ENTRY: Final = 500


@dataclass(frozen=True, slots=True)
class Moved:
    """Offsets of one group: of a member, who must have read so far, or without one of a group in which nobody reads."""

    group: str
    offsets: Mapping[TopicPartition, Commitment]
    member_id: str | None = None
    generation: int | None = None

    @property
    def name(self) -> str:
        return self.group

    @property
    def size(self) -> int:
        return sum(_ENTRY + len(at.topic) + len(each.metadata.encode()) for at, each in self.offsets.items())

    def join(self, before: Moved) -> Moved:
        """Raises where two members of the group would be among them."""
        if (before.member_id, before.generation) != (self.member_id, self.generation):
            why = "a transaction has offsets of one member of a group, in one generation"
            raise IllegalState(self.group, self.member_id or "nobody", why)
        return replace(self, offsets={**before.offsets, **self.offsets})

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

    def decide_still(self, group: Group, cluster: Cluster, offsets: Offsets, now_ms: int) -> Decision[Any]:
        """What was decided when it was added: a member that is gone since owns nothing any more."""
        try:
            return self.decide(group, cluster, offsets, now_ms)
        except UnknownInstance as gone:
            raise PartitionNotOwned(group.name, gone.member_id, *min(self.offsets), group.generation) from gone
