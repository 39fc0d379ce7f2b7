"""Positions: where a partition is read from, and how that is stored.

    a member reads on at    the offset it sought, else where the reset policy began, else the committed offset
    a commit                removes those overrides, and the dead-letter marks and attempt counts that it passes
    an owner that goes      loses what it sought; the next owner begins at the committed offset

It knows records and a draft. It must not know which member may commit, or when.
"""

from __future__ import annotations

from typing import Final

import msgspec

from consumer_groups.decisions.count_attempts import forget_attempts
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.records import MemberRecord, OffsetRecord, PositionRecord
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.state import Group

METADATA_BYTES_MAX: Final = 4096
_NOBODY_READS: Final = 2**63


def start_of(group: Group, member_id: str, topic_id: str, partition: int) -> int | None:
    """Offset at which a member without a position in memory reads on; None if the reset policy decides."""
    position = group.positions.get((topic_id, partition))
    if position is not None and position.sought is not None and position.member_id == member_id:
        return position.sought
    return group_position(group, topic_id, partition)


def group_position(group: Group, topic_id: str, partition: int) -> int | None:
    """Offset at which any member that did not seek would begin."""
    position = group.positions.get((topic_id, partition))
    if position is not None and position.resolved is not None:
        return position.resolved
    return group.committed(topic_id, partition)


def put_offset(
    draft: Draft,
    partition: TopicPartition,
    topic_id: str,
    next_offset: int,
    metadata: str = "",
    *,
    keep_seek: bool = False,
) -> None:
    """Commit an offset. `keep_seek` if what is committed was delivered before the owner's seek."""
    draft.put(
        OffsetRecord(
            group=draft.group.name,
            topic=partition.topic,
            topic_id=topic_id,
            partition=partition.partition,
            next_offset=next_offset,
            metadata=metadata,
            generation=draft.generation,
            committed_at_ms=draft.now_ms,
        )
    )
    if (topic_id, partition.partition) in draft.group.skips:
        passed = min(next_offset, _behind_readers(draft, partition, topic_id))
        drop_skips(draft, topic_id, partition.partition, below=passed)
    forget_attempts(draft, partition, topic_id, below=next_offset)
    above = draft.position(topic_id, partition.partition)
    if above is None:
        return
    if keep_seek and above.sought is not None:
        draft.put(msgspec.structs.replace(above, resolved=None))
    else:
        draft.drop(above.key)


def drop_skips(draft: Draft, topic_id: str, partition: int, *, below: int | None = None) -> None:
    """Drop dead-letter marks: they are passed for good, or their records are to be delivered again."""
    for offset in draft.group.skips.get((topic_id, partition), ()):
        if below is None or offset < below:
            draft.drop(("skip", draft.group.name, topic_id, partition, offset))


def _behind_readers(draft: Draft, partition: TopicPartition, topic_id: str) -> int:
    """Lowest offset at which a member reads on, or would if its last answer was lost: marks from there on stay."""
    places = (presence.places.get(partition) for presence in draft.group.presences.values())
    ahead = (
        offset
        for place in places
        if place is not None and place.topic_id == topic_id
        for offset in (place.position, place.acked_position)
        if offset is not None
    )
    return min(ahead, default=_NOBODY_READS)


def put_resolved(draft: Draft, partition: TopicPartition, topic_id: str, offset: int) -> None:
    """Store where the reset policy began; it overrides the committed offset, which was missing or out of range."""
    draft.put(
        PositionRecord(
            group=draft.group.name,
            topic=partition.topic,
            topic_id=topic_id,
            partition=partition.partition,
            resolved=offset,
        )
    )


def put_sought(draft: Draft, member_id: str, partition: TopicPartition, topic_id: str, offset: int) -> None:
    above = draft.position(topic_id, partition.partition)
    draft.put(
        PositionRecord(
            group=draft.group.name,
            topic=partition.topic,
            topic_id=topic_id,
            partition=partition.partition,
            resolved=None if above is None else above.resolved,
            sought=offset,
            member_id=member_id,
        )
    )


def forget_sought(draft: Draft, member_id: str, partition: TopicPartition, topic_id: str) -> None:
    """Forget what a member sought, as it loses the partition."""
    above = draft.position(topic_id, partition.partition)
    if above is None or above.sought is None or above.member_id != member_id:
        return
    if above.resolved is None:
        draft.drop(above.key)
    else:
        draft.put(msgspec.structs.replace(above, sought=None, member_id=None))


def commit_owed(draft: Draft, member: MemberRecord, partition: TopicPartition, *, came_back: bool) -> None:
    """Auto-commit what the member is done with. It lowers a committed offset only if the member itself sought back."""
    place = draft.place(member.member_id, partition)
    topic = draft.cluster.get(partition.topic)
    if not member.options.auto_commit_enable or place is None or topic is None or topic.topic_id != place.topic_id:
        return
    if member.manual is not None and draft.owner(partition) is not None:
        return
    done, since_sought = place.done(came_back=came_back)
    if done is not None:
        done = draft.group.past_skips(place.topic_id, partition.partition, done)
    committed = draft.committed(place.topic_id, partition.partition)
    if done is None or done == committed:
        return
    if committed is None or done > committed or (since_sought and place.sought):
        put_offset(draft, partition, place.topic_id, done, keep_seek=not since_sought)


def commit_all_owed(draft: Draft, member: MemberRecord, *, came_back: bool) -> None:
    for partition in draft.presence(member.member_id).places:
        commit_owed(draft, member, partition, came_back=came_back)
