"""Administration of groups: description, offsets, deletion.

Nothing here acts for a member, so offsets cannot be set while members read. Setting one starts the partition over:
records marked as dead letters are delivered again, and counts of failed attempts are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from consumer_groups.decisions.commits import Commitment, check_commitment, check_partition
from consumer_groups.decisions.count_attempts import forget_attempts
from consumer_groups.decisions.lag import Progress, take_progress
from consumer_groups.decisions.positions import drop_skips, put_offset
from consumer_groups.decisions.rebalance import choose_assignor
from consumer_groups.model.assignment import TopicPartition, in_order
from consumer_groups.model.cluster import Cluster, Offsets
from consumer_groups.model.errors import GroupNotEmpty, InvalidOffset, PartitionUnavailable, UnknownGroup
from consumer_groups.model.records import MemberRecord, OffsetRecord, gone
from consumer_groups.state.decision import Decision
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.state import Group, Groups
from delta_log.model.names import check_id
from delta_log.model.types import PartitionOffsets

State = Literal["Empty", "Stable", "Reconciling", "Dead"]


class GroupSummary(NamedTuple):
    """Summary of a group. `assignor` is None without subscribers; `dead_letter_topics`: named or filled by members."""

    group: str
    state: State
    generation: int
    assignor: str | None
    members: int
    dead_letter_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberDescription:
    member: MemberRecord
    assigned: tuple[TopicPartition, ...]
    revoking: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    summary: GroupSummary
    members: tuple[MemberDescription, ...]
    committed: tuple[OffsetRecord, ...]
    progress: Progress


@dataclass(frozen=True, slots=True)
class Shift:
    """Reset by a number of records from the committed offset, forward or back."""

    by: int


@dataclass(frozen=True, slots=True)
class Found:
    """Offset found for a timestamp: the first one at or after it, or None if it is later than every record."""

    offset: int | None


#: Where a group is reset to.
Target = Literal["earliest", "latest"] | int | Shift | Found


@dataclass(frozen=True, slots=True)
class Reset:
    before: int | None
    after: int


def list_groups(groups: Groups) -> list[GroupSummary]:
    return [summarize_group(group) for _, group in sorted(groups.by_name.items())]


def summarize_group(group: Group) -> GroupSummary:
    subscribers = [group.members[member_id] for member_id in group.holdings]
    assignor = choose_assignor(subscribers) if subscribers else None
    state, letters = state_of(group), group.dead_letter_topics
    return GroupSummary(group.name, state, group.generation, assignor, len(group.members), letters)


def state_of(group: Group) -> State:
    if not group.table:
        return "Dead"
    if not any(_reads(member) for member in group.members.values()):
        return "Empty"
    return "Stable" if all(held.settled for held in group.holdings.values()) else "Reconciling"


def describe_group(group: Group) -> GroupDescription:
    if not group.table:
        raise UnknownGroup(group.name)
    return GroupDescription(
        summarize_group(group),
        tuple(_describe_member(group, member) for _, member in sorted(group.members.items())),
        tuple(record for _, its in sorted(group.offsets.items()) for _, record in sorted(its.items())),
        take_progress(group),
    )


def decide_delete(group: Group) -> Decision[None]:
    """Delete a group; refused while it has any member."""
    if not group.table:
        raise UnknownGroup(group.name)
    if group.members:
        raise GroupNotEmpty(group.name, len(group.members))
    return Decision(group.name, None, group.generation, tuple(gone(key) for key in group.table))


def decide_put_offsets(
    group: Group, given: Mapping[TopicPartition, Commitment], cluster: Cluster, offsets: Offsets, now_ms: int
) -> Decision[None]:
    """Set offsets of a group in which no member reads; creates the group if it does not exist."""
    check_id("group id", group.name)
    _check_nobody_reads(group)
    draft = Draft(group, cluster, now_ms)
    for partition, each in given.items():
        topic = check_partition(cluster, partition)
        check_commitment(group, partition, each, offsets.get(partition))
        put_offset(draft, partition, topic.topic_id, each.next_offset, each.metadata)
        _forget(draft, partition, topic.topic_id)
    return draft.decide(None)


def decide_reset(
    group: Group, wanted: Mapping[TopicPartition, Target], cluster: Cluster, offsets: Offsets, now_ms: int
) -> Decision[dict[TopicPartition, Reset]]:
    """Reset offsets, clamped to what the log has. For a dry run the decision is not applied."""
    if not group.table:
        raise UnknownGroup(group.name)
    _check_nobody_reads(group)
    draft = Draft(group, cluster, now_ms)
    resets: dict[TopicPartition, Reset] = {}
    for partition, target in wanted.items():
        topic, known = check_partition(cluster, partition), offsets.get(partition)
        if known is None:
            raise PartitionUnavailable(*partition)
        before = group.committed(topic.topic_id, partition.partition)
        after = _resolve(group, partition, target, before, known)
        put_offset(draft, partition, topic.topic_id, after)
        _forget(draft, partition, topic.topic_id)
        resets[partition] = Reset(before, after)
    return draft.decide(resets)


def _forget(draft: Draft, partition: TopicPartition, topic_id: str) -> None:
    """Drop dead-letter marks and attempt counts of a partition, as it starts over."""
    drop_skips(draft, topic_id, partition.partition)
    forget_attempts(draft, partition, topic_id)


def _resolve(
    group: Group, partition: TopicPartition, target: Target, before: int | None, known: PartitionOffsets
) -> int:
    start, end = known.log_start_offset, known.end_offset
    match target:
        case "earliest":
            return start
        case "latest":
            return end
        case Found():
            return end if target.offset is None else min(max(target.offset, start), end)
        case Shift():
            if before is None:
                raise InvalidOffset(group.name, *partition, None, start, end)
            return min(max(before + target.by, start), end)
        case _:
            return min(max(target, start), end)


def _check_nobody_reads(group: Group) -> None:
    active = sum(_reads(member) for member in group.members.values())
    if active:
        raise GroupNotEmpty(group.name, active)


def _reads(member: MemberRecord) -> bool:
    return member.subscribed or member.manual is not None


def _describe_member(group: Group, member: MemberRecord) -> MemberDescription:
    held = group.holdings.get(member.member_id)
    if held is None:
        manual = tuple(TopicPartition(*each) for each in member.manual or ())
        return MemberDescription(member, manual, (), manual)
    return MemberDescription(
        member, tuple(in_order(held.assigned)), tuple(in_order(held.revoking)), tuple(in_order(held.target))
    )
