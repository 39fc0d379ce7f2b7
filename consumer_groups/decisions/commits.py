"""Committing offsets and seeking.

A commit is refused or stored as a whole. Only the current owner may commit; if it names a generation, it must have
been given the partition in that generation or before. The stored offset is the next one to read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from consumer_groups.decisions.membership import is_acknowledged, require_member
from consumer_groups.decisions.positions import METADATA_BYTES_MAX, put_offset, put_sought
from consumer_groups.decisions.rebalance import is_done, release_revoked
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster, Offsets, Topic
from consumer_groups.model.errors import (
    DeliveryForgotten,
    IllegalState,
    InvalidOffset,
    MetadataTooLarge,
    NotAssigned,
    PartitionNotOwned,
    PartitionUnavailable,
    PollOverdue,
    StaleGeneration,
)
from consumer_groups.model.records import MemberRecord, OffsetRecord
from consumer_groups.state.decision import Decision
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.member_session import Heard, Placed
from consumer_groups.state.state import Group
from delta_log.model.errors import UnknownPartition, UnknownTopic
from delta_log.model.types import PartitionOffsets

_INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Commitment:
    next_offset: int
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit. Without offsets: exactly what was delivered, and never less than is committed.

    With `keeps` it gives up no partition, whatever it covers: the client does so by a heartbeat.
    """

    member_id: str
    offsets: Mapping[TopicPartition, Commitment] | None = None
    generation: int | None = None
    received: int | None = None
    keeps: bool = False


#: An offset, or an end of the partition.
Where = int | Literal["beginning", "end"]


@dataclass(frozen=True, slots=True)
class Seek:
    member_id: str
    positions: Mapping[TopicPartition, Where]
    generation: int | None = None
    received: int | None = None


def decide_commit(
    group: Group, command: Commit, cluster: Cluster, offsets: Offsets, now_ms: int
) -> Decision[dict[TopicPartition, int]]:
    """Commit offsets; answers what was committed."""
    member = require_member(group, command.member_id, command.generation)
    draft = Draft(group, cluster, now_ms)
    draft.notes.append(Heard(member.member_id, now_ms))
    if member.standing == "lapsed":
        interval_ms = member.options.max_poll_interval_ms
        raise PollOverdue(group.name, member.member_id, interval_ms, group.generation)
    if command.offsets is None:
        committed = _commit_delivered(draft, member, command)
    else:
        for partition, each in command.offsets.items():
            topic = check_partition(cluster, partition)
            check_owner(group, member, partition, topic, command.generation)
            check_commitment(group, partition, each, offsets.get(partition))
            put_offset(draft, partition, topic.topic_id, each.next_offset, each.metadata)
        committed = {partition: each.next_offset for partition, each in command.offsets.items()}
    held = group.holdings.get(member.member_id)
    if held is not None and held.revoking and not command.keeps:
        _release_done(draft, member, held.revoking if command.offsets is None else committed)
    return draft.decide(committed)


def decide_seek(group: Group, command: Seek, cluster: Cluster, offsets: Offsets, now_ms: int) -> Decision[None]:
    """Move positions. As in Kafka, an offset outside the log is left to the reset policy when it is read."""
    member = require_member(group, command.member_id, command.generation)
    if command.received is not None and command.received < group.presences[member.member_id].came:
        raise IllegalState(group.name, member.member_id, "it asked for this before it was given what it has by now")
    held = group.holdings.get(member.member_id)
    draft = Draft(group, cluster, now_ms)
    placed: dict[TopicPartition, tuple[str, int]] = {}
    for partition, where in command.positions.items():
        topic = check_partition(cluster, partition)
        if (held is None or partition not in held.assigned) and tuple(partition) not in (member.manual or ()):
            raise NotAssigned(group.name, member.member_id, *partition)
        if held is not None:
            _check_generation(group, member, partition, command.generation)
        offset = _resolve(group, partition, where, offsets)
        put_sought(draft, member.member_id, partition, topic.topic_id, offset)
        placed[partition] = topic.topic_id, offset
    lost = not is_acknowledged(group, member.member_id, command.received)
    draft.notes += [Heard(member.member_id, now_ms), Placed(member.member_id, placed, sought=True, lost=lost)]
    return draft.decide(None)


def read_committed(
    group: Group, partitions: tuple[TopicPartition, ...], cluster: Cluster
) -> dict[TopicPartition, OffsetRecord]:
    """Committed offsets of these partitions; those without one are left out."""
    found: dict[TopicPartition, OffsetRecord] = {}
    for partition in partitions:
        topic = check_partition(cluster, partition)
        record = group.offsets.get(topic.topic_id, {}).get(partition.partition)
        if record is not None:
            found[partition] = record
    return found


def check_partition(cluster: Cluster, partition: TopicPartition) -> Topic:
    topic = cluster.get(partition.topic)
    if topic is None:
        raise UnknownTopic(partition.topic)
    if not 0 <= partition.partition < topic.partitions:
        raise UnknownPartition(topic.name, partition.partition, topic.partitions)
    return topic


def check_commitment(
    group: Group, partition: TopicPartition, given: Commitment, known: PartitionOffsets | None
) -> None:
    """Refuse an offset beyond the high watermark: only what could be read can be committed."""
    if known is None:
        raise PartitionUnavailable(*partition)
    if type(given.next_offset) is not int or not 0 <= given.next_offset <= known.end_offset:
        raise InvalidOffset(group.name, *partition, given.next_offset, 0, known.end_offset)
    try:
        size = len(given.metadata.encode())
    except UnicodeEncodeError:
        raise MetadataTooLarge(group.name, *partition, None, METADATA_BYTES_MAX) from None
    if size > METADATA_BYTES_MAX:
        raise MetadataTooLarge(group.name, *partition, size, METADATA_BYTES_MAX)


def check_owner(
    group: Group, member: MemberRecord, partition: TopicPartition, topic: Topic, generation: int | None
) -> None:
    """Refuse all but the owner; without an owner, a member that assigned the partition to itself may commit, too."""
    owner = group.owners.get(partition)
    if owner is None and member.manual is not None and tuple(partition) in member.manual:
        return
    if owner != member.member_id or group.topics[partition.topic].topic_id != topic.topic_id:
        raise PartitionNotOwned(group.name, member.member_id, *partition, group.generation)
    _check_generation(group, member, partition, generation)


def _check_generation(group: Group, member: MemberRecord, partition: TopicPartition, generation: int | None) -> None:
    """Refuse a generation since which the partition may have had another owner."""
    epoch = group.holdings[member.member_id].epoch(partition)
    if generation is not None and (epoch is None or not epoch <= generation <= group.generation):
        raise StaleGeneration(group.name, member.member_id, generation, group.generation)


def _commit_delivered(draft: Draft, member: MemberRecord, command: Commit) -> dict[TopicPartition, int]:
    group, generation, committed = draft.group, command.generation, dict[TopicPartition, int]()
    back = is_acknowledged(group, member.member_id, command.received)
    if group.presences[member.member_id].recalled:
        raise DeliveryForgotten(group.name, member.member_id)
    if bereft := group.presences[member.member_id].bereft:
        raise PartitionNotOwned(group.name, member.member_id, *min(bereft), group.generation)
    for partition, place in group.presences[member.member_id].places.items():
        topic = draft.cluster.get(partition.topic)
        done, since_sought = place.done(came_back=back)
        if done is None or topic is None or topic.topic_id != place.topic_id:
            continue
        done = group.past_skips(topic.topic_id, partition.partition, done)
        owner = group.owners.get(partition)
        if owner == member.member_id:
            _check_generation(group, member, partition, generation)
        elif owner is not None:
            raise PartitionNotOwned(group.name, member.member_id, *partition, group.generation)
        if done > (draft.committed(topic.topic_id, partition.partition) or 0):
            put_offset(draft, partition, topic.topic_id, done, keep_seek=not since_sought)
            committed[partition] = done
    return committed


def _release_done(draft: Draft, member: MemberRecord, covered: Collection[TopicPartition]) -> None:
    """Release revoked partitions that the commit completes.

    One with uncommitted deliveries stays, as the owner's later commits would be refused. Deliveries of an earlier
    process are not known; there a commit that covers the partition has to do.
    """
    done: list[TopicPartition] = []
    for each in draft.group.holdings[member.member_id].revoking:
        place = draft.place(member.member_id, each)
        if is_done(draft, member, each) or (each in covered and (place is None or place.doubtful)):
            done.append(each)
    release_revoked(draft, member, done, came_back=False)


def _resolve(group: Group, partition: TopicPartition, where: Where, offsets: Offsets) -> int:
    if isinstance(where, int):
        if not 0 <= where <= _INT64_MAX:
            raise InvalidOffset(group.name, *partition, where, 0, _INT64_MAX)
        return where
    known = offsets.get(partition)
    if known is None:
        raise PartitionUnavailable(*partition)
    return known.log_start_offset if where == "beginning" else known.end_offset
