"""A poll, in three steps, each a decision of its own.

    decide_poll      the member is back: what it was given before is settled, what it has to give up moves
    decide_fetch     where to read next, in turn; may be called again while the poll waits
    decide_delivery  what was read is delivered, unless the partition moved or a seek came meanwhile

The records of `decide_fetch` must be durable before anything is delivered. It must not know how records are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from consumer_groups.decisions.last_attempt import PoisonRecord, Read, bound, choose
from consumer_groups.decisions.membership import is_acknowledged, require_member
from consumer_groups.decisions.positions import commit_all_owed, group_position, put_resolved, put_sought, start_of
from consumer_groups.decisions.rebalance import release_revoked, retarget
from consumer_groups.model.assignment import TopicPartition, in_order
from consumer_groups.model.cluster import Cluster, Offsets, Topic
from consumer_groups.model.errors import NoOffset
from consumer_groups.model.options import Options
from consumer_groups.model.records import MemberRecord
from consumer_groups.model.reset_policy import At, resolve_policy
from consumer_groups.state.decision import Decision
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.member_session import AutoCommitted, Delivered, Idle, Placed, Polling, Tried
from consumer_groups.state.state import Group
from delta_log.model.types import PartitionOffsets

#: The generation of partitions that a member assigned to itself.
MANUAL: Final = -1
#: Answer numbers that are skipped if an answer arrived that had been taken back: by the gap its member sees that its
#: position is unknown, and reports it. Two, as a lost answer leaves a gap of one.
_LEFT_OUT: Final = 2


@dataclass(frozen=True, slots=True)
class Poll:
    """A poll. Nothing is delivered from `paused` partitions.

    With `keeps`, polling gives up no partition: the client does so by a heartbeat, when it is done. A client that
    reads ahead sets `done`: the number of the last answer of which it has nothing in hand.
    """

    member_id: str
    until_ms: int
    generation: int | None = None
    received: int | None = None
    paused: frozenset[TopicPartition] = frozenset()
    keeps: bool = False
    done: int | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """A poll begun by a member with these `options`; `answer` is the number of the last answer before it."""

    options: Options
    answer: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """A request to plan reads. `found`: results of an earlier plan's lookups; None if there is no record so late."""

    member_id: str
    paused: frozenset[TopicPartition] = frozenset()
    found: Mapping[TopicPartition, int | None] = field(default_factory=dict[TopicPartition, int | None])


@dataclass(frozen=True, slots=True)
class Lookup:
    partition: TopicPartition
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """Plan of reads, in turn: `reads` have records, `waits` have none yet, `lookups` need a start offset.

    `spoiled` records must become dead letters before their partition is read on. With `last_try` the next record is a
    last attempt: it is alone in `reads`, or `reads` is empty while the member has other records in hand.
    """

    reads: tuple[Read, ...]
    waits: tuple[Read, ...]
    lookups: tuple[Lookup, ...]
    spoiled: tuple[PoisonRecord, ...] = ()
    last_try: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """Records read: everything from `read.offset` to before `next_offset`."""

    read: Read
    next_offset: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """Outcome of a poll: only what is `accepted` may be given to the client. `answer` is its number."""

    accepted: tuple[Taken, ...]
    answer: int


def decide_poll(group: Group, command: Poll, cluster: Cluster, now_ms: int) -> Decision[Begun]:
    member = require_member(group, command.member_id, command.generation)
    presence = group.presences[member.member_id]
    draft = Draft(group, cluster, now_ms)
    lost = not is_acknowledged(group, member.member_id, command.received)
    options, last = member.options, presence.committed_at_ms
    if options.auto_commit_enable and last is not None and now_ms - last >= options.auto_commit_interval_ms:
        commit_all_owed(draft, member, came_back=not lost)
        draft.notes.append(AutoCommitted(member.member_id, now_ms))
    if member.standing == "lapsed":
        draft.put_member(msgspec.structs.replace(member, standing="active"))
        retarget(draft)
    held = draft.holding(member.member_id)
    if held is not None and held.revoking and not command.keeps:
        release_revoked(draft, member, held.revoking, came_back=not lost)
    arrived = command.received is not None and not lost
    left_out = _LEFT_OUT if arrived and presence.took_back else 0
    in_hand = command.done is not None and command.done < (command.received or 0)
    came = Polling(member.member_id, now_ms, command.until_ms, lost, command.keeps, left_out, command.done, in_hand)
    draft.notes.insert(0, came)
    return draft.decide(Begun(options, presence.answer + left_out))


def decide_fetch(group: Group, command: Fetch, cluster: Cluster, offsets: Offsets, now_ms: int) -> Decision[FetchPlan]:
    """Plan reads. A start by the reset policy is stored, so that a restart or a successor begins at the same offset."""
    member = require_member(group, command.member_id)
    draft = Draft(group, cluster, now_ms)
    reads: list[Read] = []
    waits: list[Read] = []
    lookups: list[Lookup] = []
    spoiled: list[PoisonRecord] = []
    placed: dict[TopicPartition, tuple[str, int]] = {}
    for partition, epoch in _in_turn(group, member):
        topic, known = cluster.get(partition.topic), offsets.get(partition)
        if topic is None or known is None or partition in command.paused:
            continue
        position = _position(group, member, partition, topic)
        if position is None or not _is_in(known, position):
            begin = _begin(member, position, command, partition, known, now_ms)
            if isinstance(begin, At):
                lookups.append(Lookup(partition, begin.timestamp_ms))
                continue
            position = begin
            if _is_in(
                known, group_position(group, topic.topic_id, partition.partition)
            ):  # only the sought offset was outside
                put_sought(draft, member.member_id, partition, topic.topic_id, position)
            else:
                put_resolved(draft, partition, topic.topic_id, position)
        position = group.past_skips(topic.topic_id, partition.partition, position)
        place = group.presences[member.member_id].places.get(partition)
        if place is None or (place.topic_id, place.position) != (topic.topic_id, position):
            placed[partition] = topic.topic_id, position
        read = bound(group, member, Read(partition, topic.topic_id, epoch, position))
        if isinstance(read, PoisonRecord):
            spoiled.append(read)
        else:
            (reads if position < known.end_offset else waits).append(read)
    if placed:
        draft.notes.append(Placed(member.member_id, placed))
    given, last_try = choose(reads, group.presences[member.member_id])
    return draft.decide(FetchPlan(given, tuple(waits), tuple(lookups), tuple(spoiled), last_try))


def decide_delivery(
    group: Group, member_id: str, taken: tuple[Taken, ...], cluster: Cluster, now_ms: int, since: int | None = None
) -> Decision[Delivery]:
    """Deliver what was read, which ends the poll if anything is accepted; `decide_idle` ends one without records.

    `since` is the last answer before the poll began. A later one belongs to another poll, and it is unknown whether it
    arrived: then nothing is delivered.
    """
    member = require_member(group, member_id)
    presence, held = group.presences[member_id], group.holdings.get(member_id)
    accepted: list[Taken] = []
    for each in taken if since in {None, presence.answer} else ():
        partition = each.read.partition
        topic, place = cluster.get(partition.topic), presence.places.get(partition)
        manual = member.manual is not None and tuple(partition) in member.manual
        epoch = MANUAL if manual else None if held is None else held.assigned.get(partition)
        there = place is not None and (place.topic_id, place.position) == (each.read.topic_id, each.read.offset)
        marked = group.next_skip(each.read.topic_id, partition.partition, each.read.offset)
        if marked is not None and marked < each.next_offset:  # marked since it was read
            continue
        if there and epoch == each.read.epoch and topic is not None and topic.topic_id == each.read.topic_id:
            accepted.append(each)
    if not accepted:
        return Decision(group.name, Delivery((), presence.answer), group.generation)
    answer = presence.answer + 1
    given = {each.read.partition: each.next_offset for each in accepted}
    tried = tuple(
        Tried(answer, read.partition, read.topic_id, read.offset, next_offset, read.last_try)
        for read, next_offset in ((each.read, each.next_offset) for each in accepted)
    )
    notes = (Delivered(member_id, now_ms, answer, given, tried),)
    return Decision(group.name, Delivery(tuple(accepted), answer), group.generation, notes=notes)


def decide_idle(group: Group, member_id: str, now_ms: int | None) -> Decision[None]:
    """End a poll without records: at its deadline, or (without a time) because the client disconnected."""
    require_member(group, member_id)
    return Decision(group.name, None, group.generation, notes=(Idle(member_id, now_ms),))


def decide_answer_lost(group: Group, member_id: str, answer: int) -> Decision[None]:
    """Take an answer back, as the client disconnected before it had all of it: its records are delivered again."""
    require_member(group, member_id)
    if group.presences[member_id].answer != answer:
        return Decision(group.name, None, group.generation)
    return Decision(group.name, None, group.generation, notes=(Idle(member_id, None, lost=True),))


def _in_turn(group: Group, member: MemberRecord) -> list[tuple[TopicPartition, int]]:
    """Partitions that the member may read, beginning after the one it read last."""
    held = group.holdings.get(member.member_id)
    if held is not None:
        owned = [(partition, held.assigned[partition]) for partition in in_order(held.assigned)]
    else:
        owned = [(TopicPartition(*each), MANUAL) for each in sorted(member.manual or ())]
    turn = group.presences[member.member_id].turn
    if turn is None:
        return owned
    behind = next((place for place, (partition, _) in enumerate(owned) if partition > turn), 0)
    return owned[behind:] + owned[:behind]


def _position(group: Group, member: MemberRecord, partition: TopicPartition, topic: Topic) -> int | None:
    place = group.presences[member.member_id].places.get(partition)
    if place is not None and place.position is not None and place.topic_id == topic.topic_id:
        return place.position
    return start_of(group, member.member_id, topic.topic_id, partition.partition)


def _is_in(known: PartitionOffsets, position: int | None) -> bool:
    return position is not None and known.log_start_offset <= position <= known.end_offset


def _begin(
    member: MemberRecord,
    position: int | None,
    command: Fetch,
    partition: TopicPartition,
    known: PartitionOffsets,
    now_ms: int,
) -> int | At:
    """Start offset by the reset policy; a record that was looked up may be gone meanwhile."""
    begin = resolve_policy(member.options.auto_offset_reset, known, now_ms)
    if begin is None:
        raise NoOffset(member.group, partition.topic, partition.partition, position)
    if isinstance(begin, At) and partition in command.found:
        found = command.found[partition]
        return known.end_offset if found is None else min(max(found, known.log_start_offset), known.end_offset)
    return begin
