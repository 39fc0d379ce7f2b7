"""A poll, in three steps, each a decision of its own.

    decide_poll      the member came back: what it was given before is settled, what it has to give up moves
    decide_fetch     where to read next, in turn; may be asked again while the poll waits
    decide_delivery  what was read becomes what was given, unless the partition moved or was sought in meanwhile

What `decide_fetch` rests on is to be durable before anything is delivered. It must not know how records are read.
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

#: The generation of what is not owned with the group.
MANUAL: Final = -1
#: Numbers of answers that are left out where one did arrive that was taken back: by that its member sees that nobody
#: knows where it is, and says so. Two, as one is missing wherever an answer was lost.
_LEFT_OUT: Final = 2


@dataclass(frozen=True, slots=True)
class Poll:
    """Of what is `paused` nothing is given now.

    With `keeps` it gives up nothing by polling: the client does so by a heartbeat, when it is done. Who reads ahead
    says what it is `done` with: the number of the last answer of which it has nothing in hand.
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
    """A poll of a member with these `options`; `answer` is the number of the last answer that was given before it."""

    options: Options
    answer: int


@dataclass(frozen=True, slots=True)
class Fetch:
    """`found` are the offsets of what an earlier plan wanted to be looked up; None: there is no record so late."""

    member_id: str
    paused: frozenset[TopicPartition] = frozenset()
    found: Mapping[TopicPartition, int | None] = field(default_factory=dict[TopicPartition, int | None])


@dataclass(frozen=True, slots=True)
class Lookup:
    partition: TopicPartition
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """In the order of their turns: `reads` have records, `waits` have none yet, `lookups` need a place to begin.

    What is `spoiled` is to be made a dead letter before its partition is read on. With `last_try` what comes next is
    given for the last time: it is alone in `reads`, or in none, as the member has more in hand.
    """

    reads: tuple[Read, ...]
    waits: tuple[Read, ...]
    lookups: tuple[Lookup, ...]
    spoiled: tuple[PoisonRecord, ...] = ()
    last_try: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What was read: everything from `read.offset` to before `next_offset`."""

    read: Read
    next_offset: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """`accepted` may be given to the client, the others must not. `answer` numbers what is given."""

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
    """Where to read. What the reset policy says is kept, so that no restart and no successor begins elsewhere."""
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
            ):  # only where it sought was not
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
    """Ends the poll if anything is accepted; `decide_idle` ends one without.

    `since` is the last answer that was given before it began. Where there is a later one, that is another poll's, of
    which nobody knows whether it arrived: nothing is given behind it.
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
        if marked is not None and marked < each.next_offset:  # meanwhile
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
    """A poll ended without records: at its time, or (without a time) because the client went away."""
    require_member(group, member_id)
    return Decision(group.name, None, group.generation, notes=(Idle(member_id, now_ms),))


def decide_answer_lost(group: Group, member_id: str, answer: int) -> Decision[None]:
    """The client went away before it had all of an answer: what was in it is given again."""
    require_member(group, member_id)
    if group.presences[member_id].answer != answer:
        return Decision(group.name, None, group.generation)
    return Decision(group.name, None, group.generation, notes=(Idle(member_id, None, lost=True),))


def _in_turn(group: Group, member: MemberRecord) -> list[tuple[TopicPartition, int]]:
    """What the member may read, beginning behind what it read last."""
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
    """Where the reset policy begins; a record that was looked up may be gone meanwhile."""
    begin = resolve_policy(member.options.auto_offset_reset, known, now_ms)
    if begin is None:
        raise NoOffset(member.group, partition.topic, partition.partition, position)
    if isinstance(begin, At) and partition in command.found:
        found = command.found[partition]
        return known.end_offset if found is None else min(max(found, known.log_start_offset), known.end_offset)
    return begin
