"""Offsets of groups that a transaction moves: decided when they are added, and again when it is committed. Pure.

What was read may have become another's in between: then the second decision refuses, and with it the transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from consumer_groups.admin import decide_put_offsets
from consumer_groups.assignment import TopicPartition
from consumer_groups.cluster import Cluster, Offsets
from consumer_groups.commits import Commit, Commitment, decide_commit
from consumer_groups.decision import Decision
from consumer_groups.errors import IllegalState
from consumer_groups.state import Group


@dataclass(frozen=True, slots=True)
class Moved:
    """Offsets of one group: of a member, who must have read so far, or without one of a group in which nobody reads."""

    group: str
    offsets: Mapping[TopicPartition, Commitment]
    member_id: str | None = None
    generation: int | None = None

    def decide(self, group: Group, cluster: Cluster, offsets: Offsets, now_ms: int) -> Decision[Any]:
        if self.member_id is None:
            return decide_put_offsets(group, self.offsets, cluster, offsets, now_ms)
        command = Commit(self.member_id, self.offsets, self.generation, keeps=True)
        return decide_commit(group, command, cluster, offsets, now_ms)


def join_moved(moved: Sequence[Moved]) -> list[Moved]:
    """One for each group, of which what was added later counts; raises where two members of a group are among them."""
    joined: dict[str, Moved] = {}
    for each in moved:
        before = joined.get(each.group, each)
        if (before.member_id, before.generation) != (each.member_id, each.generation):
            why = "a transaction has offsets of one member of a group, in one generation"
            raise IllegalState(each.group, each.member_id or "nobody", why)
        joined[each.group] = Moved(each.group, {**before.offsets, **each.offsets}, each.member_id, each.generation)
    return list(joined.values())
