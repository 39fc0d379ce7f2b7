"""Membership: joining, succeeding a static member, leaving, and heartbeats.

For a REST client the instance is the member, and its requests have no generation. A client that sends the generation
that it last received is refused once that is outdated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from consumer_groups.decisions.count_attempts import count_attempts
from consumer_groups.decisions.positions import commit_all_owed
from consumer_groups.decisions.rebalance import let_go, release_all, release_revoked, retarget
from consumer_groups.model.assignment import TopicPartition, in_order
from consumer_groups.model.cluster import Cluster
from consumer_groups.model.errors import NameTaken, StaleGeneration, UnknownInstance
from consumer_groups.model.options import Options
from consumer_groups.model.records import MemberRecord
from consumer_groups.state.decision import Decision
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.member_session import Heard, Settled
from consumer_groups.state.state import Group
from delta_log.model.names import check_id


@dataclass(frozen=True, slots=True)
class Join:
    """A request to join. `member_id` is the requested name, or a generated one that was never used."""

    member_id: str
    options: Options
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class Joined:
    member_id: str


@dataclass(frozen=True, slots=True)
class Leave:
    """A request to leave. A static member keeps its partitions for its successor, for a session, unless `for_good`.

    `failed`: what it was given after the answer `done` counts as a failed attempt.
    """

    member_id: str
    for_good: bool = False
    generation: int | None = None
    received: int | None = None
    failed: bool = False
    done: int | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat. `owned`: what a client has not given up yet; None from clients that are not told of revocations."""

    member_id: str
    generation: int | None = None
    owned: frozenset[TopicPartition] | None = None


@dataclass(frozen=True, slots=True)
class Beaten:
    """Reply to a heartbeat. `since`: the generation of each assigned partition; none for a manual assignment."""

    assigned: tuple[TopicPartition, ...]
    revoking: tuple[TopicPartition, ...]
    since: Mapping[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])


def is_acknowledged(group: Group, member_id: str, received: int | None) -> bool:
    """Return whether the last answer reached the member, so that it is done with all that it was given.

    `received`: number of the last answer with records that reached it; None from a client that does not track it.
    """
    return received is None or received == group.presences[member_id].answer


def require_member(group: Group, member_id: str, generation: int | None = None) -> MemberRecord:
    """Return the member; raises UnknownInstance, or StaleGeneration for an old generation."""
    member = group.members.get(member_id)
    if member is None or member.standing == "away":
        raise UnknownInstance(group.name, member_id)
    if generation is not None and not member.since <= generation <= group.generation:
        raise StaleGeneration(group.name, member_id, generation, group.generation)
    return member


def decide_join(group: Group, command: Join, cluster: Cluster, now_ms: int) -> Decision[Joined]:
    """Add a member, without a subscription. A static one takes the place of its predecessor."""
    check_id("group id", group.name)
    check_id("consumer instance name", command.member_id)
    predecessor = group.statics.get(command.options.group_instance_id or "")
    if command.member_id in group.members and command.member_id != predecessor:
        raise NameTaken(group.name, command.member_id)
    draft = Draft(group, cluster, now_ms)
    draft.notes.append(Heard(command.member_id, now_ms, begins=True))
    if command.options.dead_letter_topic is not None:
        draft.note_dead_letters(command.options.dead_letter_topic)
    record = MemberRecord(
        group=group.name,
        member_id=command.member_id,
        options=command.options,
        joined_at_ms=now_ms,
        client_id=command.client_id,
        since=group.generation,
    )
    if predecessor is None:
        draft.put_member(record)
    else:
        _succeed(draft, group.members[predecessor], record)
    return draft.decide(Joined(command.member_id))


def decide_leave(group: Group, command: Leave, cluster: Cluster, now_ms: int) -> Decision[None]:
    """Remove a member, or send a static one away. Unless it `failed`, what reached it counts as done with."""
    away = group.members.get(command.member_id)
    if away is None or away.standing != "away" or not command.for_good:
        member = require_member(group, command.member_id, command.generation)
    else:
        member = away
    draft = Draft(group, cluster, now_ms)
    back = is_acknowledged(group, member.member_id, command.received) and not command.failed
    held = draft.holding(member.member_id)
    if held is None or member.options.group_instance_id is None or command.for_good:
        remove(draft, member, came_back=back)
        _end(draft, member, command)
        retarget(draft)
        return draft.decide(None)
    commit_all_owed(draft, member, came_back=back)
    _end(draft, member, command)
    gone = msgspec.structs.replace(member, standing="away")
    draft.put_member(gone)
    draft.notes.append(Heard(member.member_id, now_ms))
    release_revoked(draft, gone, held.revoking, came_back=back)
    return draft.decide(None)


def decide_heartbeat(group: Group, command: Heartbeat, cluster: Cluster, now_ms: int) -> Decision[Beaten]:
    """Extend the session; partitions that the member has given up move."""
    member = require_member(group, command.member_id, command.generation)
    draft = Draft(group, cluster, now_ms)
    draft.notes.append(Heard(member.member_id, now_ms))
    held = draft.holding(member.member_id)
    if held is not None and held.revoking:
        kept = command.owned or frozenset()
        given_up = [each for each in held.revoking if each not in kept]
        release_revoked(draft, member, given_up, came_back=False, willing=command.owned is not None)
        held = draft.holding(member.member_id)
    if held is None:
        return draft.decide(Beaten(tuple(TopicPartition(*each) for each in member.manual or ()), ()))
    return draft.decide(Beaten(tuple(in_order(held.assigned)), tuple(in_order(held.revoking)), dict(held.assigned)))


def remove(draft: Draft, member: MemberRecord, *, came_back: bool) -> None:
    """Remove a member entirely; the caller calls `retarget` next."""
    release_all(draft, member, came_back=came_back)
    draft.drop_member(member.member_id)


def _end(draft: Draft, member: MemberRecord, command: Leave) -> None:
    """Settle what the member has in hand: failed attempts if it failed, else done with."""
    if command.failed:
        count_attempts(draft, member, done=command.done, received=command.received)
    else:
        draft.notes.append(Settled(member.member_id))


def _succeed(draft: Draft, old: MemberRecord, new: MemberRecord) -> None:
    """Give a successor what its predecessor owned, from the committed offsets on. The predecessor is fenced."""
    if not old.subscribed or old.standing == "lapsed":
        release_all(draft, old, came_back=False)
        count_attempts(draft, old)
    draft.drop_member(old.member_id)
    draft.generation += 1
    draft.put_member(
        msgspec.structs.replace(
            new, topics=old.topics, pattern=old.pattern, inherited=old.subscribed, since=draft.generation
        )
    )
    held = draft.holding(old.member_id)
    if held is not None:
        for partition in [*held.assigned, *held.revoking]:
            let_go(draft, old, partition, came_back=False)
        count_attempts(draft, old)
        draft.pass_holding(old.member_id, new.member_id)
        given_up = draft.hold(new.member_id).revoking
        release_revoked(draft, draft.members[new.member_id], given_up, came_back=False)
    retarget(draft)
