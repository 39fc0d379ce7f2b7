"""Rebalance: the target assignment, and how each member reaches it independently.

    kept      = owned ∩ target            read on, undisturbed
    revoked   = owned − target            no longer read; moves when its owner is done with what it was given
    taken     = target − owned by anyone  read at once

The target changes as a whole, with the generation; each partition moves by itself, as in Kafka's KIP-848. Its owner
is done when nothing that was delivered is uncommitted, when it polls, commits, heartbeats, leaves or expires, and at
the latest after `rebalance.timeout.ms`. It must not know which request or event triggered it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from consumer_groups.decisions.positions import commit_owed, forget_sought
from consumer_groups.model.assignment import Assignment, Subscriber, TopicPartition, assignor_named
from consumer_groups.model.records import MemberRecord, TopicRecord
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.member_session import PartitionLost
from delta_log.model.errors import LakelogError

FALLBACK: Final = "range"


def subscribed_topics(draft: Draft, member: MemberRecord) -> frozenset[str]:
    """Existing topics that a member reads with the group."""
    if member.pattern is not None:
        return draft.cluster.matching(member.pattern)
    return frozenset(member.topics or ()) & draft.cluster.topics.keys()


def retarget(draft: Draft, *, strict: bool = False) -> None:
    """Recompute the target after members, subscriptions, topics or partitions changed, and begin to move towards it.

    A failing custom assignor raises if `strict`, and is replaced otherwise: a group must go on when a member leaves.
    """
    members = [each for each in draft.members.values() if each.subscribed and each.standing != "lapsed"]
    subscribers = [_subscriber(draft, member) for member in members]
    anew = _keep_topics(draft, subscribers)
    outcome = _assign(draft, members, subscribers, strict=strict)
    changed = {member_id for member_id, target in outcome.items() if _target(draft, member_id) != target}
    if not anew and not changed and len(draft.wanted) == sum(map(len, outcome.values())):
        draft.give_freed()
        return
    draft.generation += 1
    draft.wanted = {partition: member_id for member_id, target in outcome.items() for partition in target}
    for member_id in changed:
        draft.set_target(member_id, outcome[member_id])
    for member_id in changed:
        _revoke_lost(draft, draft.members[member_id])
    for partition in draft.wanted:
        draft.give(partition)


def release(
    draft: Draft, member: MemberRecord, partition: TopicPartition, *, came_back: bool, willing: bool = False
) -> None:
    """Take a partition from its owner for good; `Draft.give` gives it to its target owner.

    `came_back` if a request of the owner implies that it is done with all it was given; `willing` if it gave the
    partition up explicitly.
    """
    let_go(draft, member, partition, came_back=came_back)
    if not (came_back or willing) and _is_open(draft, member.member_id, partition):
        draft.notes.append(PartitionLost(member.member_id, partition))
    draft.take(member.member_id, partition)


def let_go(draft: Draft, member: MemberRecord, partition: TopicPartition, *, came_back: bool) -> None:
    """End a member's reading of a partition: auto-commit what it is done with, and forget what it sought."""
    commit_owed(draft, member, partition, came_back=came_back)
    topic = draft.cluster.get(partition.topic) if member.manual is not None else draft.group.topics.get(partition.topic)
    if topic is not None:
        forget_sought(draft, member.member_id, partition, topic.topic_id)


def release_all(draft: Draft, member: MemberRecord, *, came_back: bool) -> None:
    """Take all partitions of a member, as it leaves the assignment. `retarget` gives them to others."""
    held = draft.holding(member.member_id)
    if held is not None:
        for partition in [*held.assigned, *held.revoking]:
            release(draft, member, partition, came_back=came_back)
        draft.drop_holding(member.member_id)
    for topic, number in member.manual or ():
        let_go(draft, member, TopicPartition(topic, number), came_back=came_back)


def release_revoked(
    draft: Draft,
    member: MemberRecord,
    partitions: Iterable[TopicPartition],
    *,
    came_back: bool,
    willing: bool = False,
) -> None:
    """Move partitions that their owner is done with."""
    for partition in list(partitions):
        release(draft, member, partition, came_back=came_back, willing=willing)
        draft.give(partition)


def is_done(draft: Draft, member: MemberRecord, partition: TopicPartition) -> bool:
    """Return whether a partition can be taken from its owner at once. Reads without polls are not known here."""
    if member.standing == "away":
        return True
    if not member.options.polls:
        return False
    if not _is_open(draft, member.member_id, partition):
        return True
    place = draft.place(member.member_id, partition)
    return _waits_in_poll(draft, member.member_id) and place is not None and place.acked == place.delivered


def _is_open(draft: Draft, member_id: str, partition: TopicPartition) -> bool:
    """Return whether something delivered from the partition is not committed."""
    place = draft.place(member_id, partition)
    if place is None:
        return False
    return place.leaves_open(draft.committed(place.topic_id, partition.partition) or 0)


def _waits_in_poll(draft: Draft, member_id: str) -> bool:
    """Return whether a member waits in a poll that implies that it is done with what it was given."""
    presence = draft.presence(member_id)
    until_ms = presence.polling_until_ms
    return not presence.keeps and until_ms is not None and until_ms > draft.now_ms


def _subscriber(draft: Draft, member: MemberRecord) -> Subscriber:
    return Subscriber(
        member.member_id,
        subscribed_topics(draft, member),
        member.options.group_instance_id,
        _target(draft, member.member_id) or frozenset(),
    )


def _target(draft: Draft, member_id: str) -> frozenset[TopicPartition] | None:
    held = draft.holding(member_id)
    return None if held is None else held.target


def _keep_topics(draft: Draft, subscribers: Sequence[Subscriber]) -> bool:
    """Update the topics. One that is replaced or gone loses its owners at once, as there is nothing left to commit.

    Returns whether there was one.
    """
    present = frozenset[str]().union(*(subscriber.topics for subscriber in subscribers))
    topics = {name: draft.cluster.topics[name] for name in present}
    anew = False
    for name, known in draft.topics.items():
        current = draft.cluster.get(name)
        if current is None or current.topic_id != known.topic_id:
            anew = True
            for number in range(known.partitions):
                partition = TopicPartition(name, number)
                if (owner := draft.owner(partition)) is not None:
                    draft.take(owner, partition)
    group = draft.group.name
    draft.put_topics(
        {
            name: TopicRecord(group=group, topic=name, topic_id=topic.topic_id, partitions=topic.partitions)
            for name, topic in topics.items()
        }
    )
    return anew


def _assign(
    draft: Draft, members: Sequence[MemberRecord], subscribers: Sequence[Subscriber], *, strict: bool
) -> Assignment:
    partitions = {name: topic.partitions for name, topic in draft.topics.items()}
    try:
        return assignor_named(choose_assignor(members), draft.cluster.custom_assignors)(subscribers, partitions)
    except LakelogError:
        if strict:
            raise
        return assignor_named(FALLBACK)(subscribers, partitions)


def choose_assignor(members: Sequence[MemberRecord]) -> str:
    """Choose the assignor that most members prefer, among those that all of them support, if any; as in Kafka."""
    wishes = [member.options.partition_assignment_strategy for member in members]
    if not wishes:
        return FALLBACK
    shared = set(wishes[0]).intersection(*wishes[1:])
    votes = Counter(next((name for name in wish if name in shared), wish[0]) for wish in wishes)
    return min(votes, key=lambda name: (-votes[name], name))


def _revoke_lost(draft: Draft, member: MemberRecord) -> None:
    held = draft.holding(member.member_id)
    if held is None:
        return
    lost = [partition for partition in held.assigned if partition not in held.target]
    waits: list[TopicPartition] = []
    for partition in lost:
        if is_done(draft, member, partition):
            release(draft, member, partition, came_back=_waits_in_poll(draft, member.member_id))
        else:
            waits.append(partition)
    draft.revoke(member.member_id, waits, draft.now_ms + member.options.rebalance_timeout_ms)
