"""Subscriptions: a member reads topics or a pattern with its group, or partitions that it assigns to itself."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from consumer_groups.decisions.membership import is_acknowledged, require_member
from consumer_groups.decisions.rebalance import release, release_all, retarget, subscribed_topics
from consumer_groups.model.assignment import TopicPartition, in_order
from consumer_groups.model.cluster import Cluster, PatternError
from consumer_groups.model.errors import IllegalState, InvalidPattern, MixedSubscription
from consumer_groups.model.records import MemberRecord
from consumer_groups.state.decision import Decision
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.member_session import Heard, Settled
from consumer_groups.state.state import Group
from delta_log.model.errors import UnknownPartition, UnknownTopic
from delta_log.model.names import check_topic_name


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscription to topics, which need not exist yet, or to all whose whole name matches a pattern."""

    member_id: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    generation: int | None = None
    received: int | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """End of a subscription or manual assignment: it stays a member, and reads nothing."""

    member_id: str
    generation: int | None = None
    received: int | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    """Manual assignment of partitions, whatever other members read. An empty one ends it."""

    member_id: str
    partitions: tuple[TopicPartition, ...]
    generation: int | None = None
    received: int | None = None


def decide_subscribe(group: Group, command: Subscribe, cluster: Cluster, now_ms: int) -> Decision[None]:
    member = require_member(group, command.member_id, command.generation)
    _check_subscription(group, member, command, cluster)
    topics = None if command.pattern is not None else tuple(dict.fromkeys(command.topics))
    draft = Draft(group, cluster, now_ms)
    draft.notes.append(Heard(member.member_id, now_ms, begins=True))
    now_is = msgspec.structs.replace(
        member, topics=topics, pattern=command.pattern, manual=None, inherited=False, standing="active"
    )
    if now_is == member:
        return draft.decide(None)
    draft.put_member(now_is)
    held = draft.holding(member.member_id)
    if held is not None:  # a member is done with what it gives up itself
        wanted, back = subscribed_topics(draft, now_is), is_acknowledged(group, member.member_id, command.received)
        for partition in [each for each in (*held.assigned, *held.revoking) if each.topic not in wanted]:
            release(draft, member, partition, came_back=back)
    retarget(draft, strict=True)
    return draft.decide(None)


def decide_unsubscribe(group: Group, command: Unsubscribe, cluster: Cluster, now_ms: int) -> Decision[None]:
    member = require_member(group, command.member_id, command.generation)
    draft = Draft(group, cluster, now_ms)
    draft.notes.append(Heard(member.member_id, now_ms))
    _end(draft, member, back=is_acknowledged(group, member.member_id, command.received))
    retarget(draft)
    return draft.decide(None)


def decide_assign(group: Group, command: Assign, cluster: Cluster, now_ms: int) -> Decision[None]:
    member = require_member(group, command.member_id, command.generation)
    if member.subscribed and not member.inherited:
        raise MixedSubscription(group.name, member.member_id, "it has a subscription, so it cannot be assigned to")
    for topic, partition in command.partitions:
        known = cluster.get(topic)
        if known is None:
            raise UnknownTopic(topic)
        if not 0 <= partition < known.partitions:
            raise UnknownPartition(topic, partition, known.partitions)
    draft = Draft(group, cluster, now_ms)
    draft.notes.append(Heard(member.member_id, now_ms))
    chosen = dict.fromkeys((topic, partition) for topic, partition in command.partitions)
    if member.inherited:
        _end(draft, member, back=False)
        retarget(draft)
    else:
        kept = tuple(each for each in member.manual or () if each not in chosen)
        back = is_acknowledged(group, member.member_id, command.received)
        release_all(draft, msgspec.structs.replace(member, manual=kept), came_back=back)
        draft.notes.append(Settled(member.member_id))
    draft.put_member(msgspec.structs.replace(draft.members[member.member_id], manual=tuple(chosen) or None))
    return draft.decide(None)


def read_subscription(group: Group, member_id: str, cluster: Cluster) -> tuple[str, ...]:
    """Topics that a member reads with the group; for a pattern, those that match it now."""
    member = require_member(group, member_id)
    return tuple(sorted(cluster.matching(member.pattern))) if member.pattern is not None else member.topics or ()


def read_assignment(group: Group, member_id: str) -> tuple[TopicPartition, ...]:
    """Partitions that a member may read now, without those it has to give up."""
    member, held = require_member(group, member_id), group.holdings.get(member_id)
    if held is not None:
        return tuple(in_order(held.assigned))
    return tuple(TopicPartition(*each) for each in member.manual or ())


def _end(draft: Draft, member: MemberRecord, *, back: bool) -> None:
    release_all(draft, member, came_back=back)
    draft.notes.append(Settled(member.member_id))
    draft.put_member(
        msgspec.structs.replace(member, topics=None, pattern=None, manual=None, inherited=False, standing="active")
    )


def _check_subscription(group: Group, member: MemberRecord, command: Subscribe, cluster: Cluster) -> None:
    if bool(command.topics) == (command.pattern is not None):
        raise IllegalState(group.name, member.member_id, "a subscription is either to topics or to a topic_pattern")
    for topic in command.topics:
        check_topic_name(topic, internal=True)
    if command.pattern is not None:
        try:
            cluster.matching(command.pattern)
        except PatternError as error:
            raise InvalidPattern(group.name, command.pattern, str(error)) from error
    if member.inherited:
        return
    if member.manual is not None:
        raise MixedSubscription(group.name, member.member_id, "it has an assignment, so it cannot subscribe")
    other = member.topics if command.pattern is not None else member.pattern
    if other is not None:
        raise MixedSubscription(group.name, member.member_id, "it is subscribed in the other way; unsubscribe first")
