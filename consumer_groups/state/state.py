"""State of all groups: a table of the latest records, and indexes on it.

Only `replay` changes it, at startup and after a decision alike. It returns the displaced record: replaying that takes
the change back. What is in memory only (`presences`) is created and removed here with members and their partitions,
and otherwise not touched. Pure.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from consumer_groups.model.assignment import TopicPartition, share
from consumer_groups.model.delivery_attempts import Attempts
from consumer_groups.model.records import (
    AssignmentRecord,
    AttemptsRecord,
    Gone,
    GroupRecord,
    Key,
    MemberRecord,
    OffsetRecord,
    Owned,
    Partitions,
    PositionRecord,
    Record,
    SkipRecord,
    TopicRecord,
    gone,
)
from consumer_groups.state.member_session import Position, Presence

_UNTRIED: Final = Attempts()


@dataclass(slots=True)
class Holding:
    """Partitions that a member is to own (`target`), owns, and has to give up; the latter two with their generation."""

    generation: int = 0
    target: frozenset[TopicPartition] = frozenset()
    assigned: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    revoking: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    def epoch(self, partition: TopicPartition) -> int | None:
        """Generation in which the member was given the partition; None if it does not have it."""
        given = self.assigned.get(partition)
        return self.revoking.get(partition) if given is None else given

    @property
    def settled(self) -> bool:
        same = not self.revoking and len(self.assigned) == len(self.target)
        return same and all(each in self.target for each in self.assigned)


class Group:
    """State of a group. All but `presences` follows from the records of `table`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.table: dict[Key, Record] = {}
        self.generation = 0
        self.empty_since_ms: int | None = None
        self.dead_letter_topics: tuple[str, ...] = ()
        self.members: dict[str, MemberRecord] = {}
        self.statics: dict[str, str] = {}
        self.holdings: dict[str, Holding] = {}
        self.topics: dict[str, TopicRecord] = {}
        self.owners: dict[TopicPartition, str] = {}
        self.wanted: dict[TopicPartition, str] = {}
        #: by topic id and partition
        self.offsets: dict[str, dict[int, OffsetRecord]] = {}
        self.positions: dict[tuple[str, int], PositionRecord] = {}
        #: by topic id and partition, in their order
        self.skips: dict[tuple[str, int], list[int]] = {}
        #: by topic id and partition
        self.attempts: dict[tuple[str, int], Attempts] = {}
        self.presences: dict[str, Presence] = {}
        #: See `decision_weight`: number of partitions it reads, and the cluster in which they were counted.
        self.weight = 0
        self.weighed: object = None

    def committed(self, topic_id: str, partition: int) -> int | None:
        """Next offset to read, as last committed."""
        record = self.offsets.get(topic_id, {}).get(partition)
        return None if record is None else record.next_offset

    def skip(self, topic_id: str, partition: int, offset: int) -> None:
        """Mark an offset as not to be delivered."""
        if not self.is_skipped(topic_id, partition, offset):
            insort(self.skips.setdefault((topic_id, partition), []), offset)

    def unskip(self, topic_id: str, partition: int, offset: int) -> None:
        skips = self.skips[topic_id, partition]
        skips.remove(offset)
        if not skips:
            del self.skips[topic_id, partition]

    def is_skipped(self, topic_id: str, partition: int, offset: int) -> bool:
        return self.next_skip(topic_id, partition, offset) == offset

    def next_skip(self, topic_id: str, partition: int, offset: int) -> int | None:
        """The first offset from there on that is not to be delivered."""
        skips = self.skips.get((topic_id, partition), ())
        place = bisect_left(skips, offset)
        return skips[place] if place < len(skips) else None

    def attempts_at(self, topic_id: str, partition: int) -> Attempts:
        """Failed attempts counted in a partition; mostly none."""
        return self.attempts.get((topic_id, partition), _UNTRIED)

    def past_skips(self, topic_id: str, partition: int, offset: int) -> int:
        """The first offset from there on that may be delivered."""
        skips = self.skips.get((topic_id, partition), ())
        place = bisect_left(skips, offset)
        while place < len(skips) and skips[place] == offset:
            place, offset = place + 1, offset + 1
        return offset


class Groups:
    """Groups by name."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.by_name: dict[str, Group] = {}
        for record in records:
            replay(self, record)

    def get(self, name: str) -> Group:
        """Return the group; an empty one, not yet added, if there is none."""
        return self.by_name.get(name) or Group(name)

    def records(self) -> list[Record]:
        """Return all records that the tables have to keep."""
        return [record for group in self.by_name.values() for record in group.table.values()]


def replay(groups: Groups, record: Record) -> Record:
    """Make one record part of the state; returns the record that would undo it."""
    key = record.key
    group = groups.by_name.get(record.group)
    if group is None:
        group = groups.by_name[record.group] = Group(record.group)
    displaced = group.table.get(key) or gone(key)
    if isinstance(record, Gone):
        group.table.pop(key, None)
        _forget(group, displaced)
        if not group.table:
            del groups.by_name[group.name]
        return displaced
    group.table[key] = record
    _learn(group, record)
    return displaced


def _learn(group: Group, record: Record) -> None:
    match record:
        case OffsetRecord():
            group.offsets.setdefault(record.topic_id, {})[record.partition] = record
        case SkipRecord():
            group.skip(record.topic_id, record.partition, record.offset)
        case AttemptsRecord():
            group.attempts[record.topic_id, record.partition] = Attempts(record.stretches)
        case PositionRecord():
            group.positions[record.topic_id, record.partition] = record
        case AssignmentRecord():
            _hold(group, record.member_id, _holding(record))
            group.weighed = None
        case MemberRecord():
            _learn_member(group, record)
        case TopicRecord():
            group.topics[record.topic] = record
        case GroupRecord():
            group.generation, group.empty_since_ms = record.generation, record.empty_since_ms
            group.dead_letter_topics = record.dead_letter_topics
        case Gone():
            pass


def _learn_member(group: Group, record: MemberRecord) -> None:
    _unname(group, record.member_id)
    presence = group.presences.setdefault(record.member_id, Presence())
    known = group.members.get(record.member_id)
    for dropped in set(known.manual or () if known else ()) - set(record.manual or ()):
        presence.places.pop(TopicPartition(*dropped), None)
    group.members[record.member_id] = record
    group.weighed = None
    if record.options.group_instance_id is not None:
        group.statics[record.options.group_instance_id] = record.member_id


def _forget(group: Group, record: Record) -> None:
    match record:
        case OffsetRecord():
            _forget_offset(group, record)
        case SkipRecord():
            group.unskip(record.topic_id, record.partition, record.offset)
        case AttemptsRecord():
            del group.attempts[record.topic_id, record.partition]
        case PositionRecord():
            del group.positions[record.topic_id, record.partition]
        case AssignmentRecord():
            _hold(group, record.member_id, None)
        case MemberRecord():
            _unname(group, record.member_id)
            group.weighed = None
            del group.members[record.member_id]
            del group.presences[record.member_id]
        case TopicRecord():
            del group.topics[record.topic]
        case GroupRecord():
            group.generation, group.empty_since_ms, group.dead_letter_topics = 0, None, ()
        case Gone():
            pass


def _forget_offset(group: Group, record: OffsetRecord) -> None:
    partitions = group.offsets[record.topic_id]
    del partitions[record.partition]
    if not partitions:
        del group.offsets[record.topic_id]


def _unname(group: Group, member_id: str) -> None:
    """Remove a member's static name, unless its successor has it already."""
    known = group.members.get(member_id)
    name = None if known is None else known.options.group_instance_id
    if name is not None and group.statics.get(name) == member_id:
        del group.statics[name]


def _hold(group: Group, member_id: str, holding: Holding | None) -> None:
    """Give and take partitions. The records of a unit may come in any order: nothing is taken from a new owner."""
    before, after = group.holdings.pop(member_id, None) or Holding(), holding or Holding()
    had, has = before.assigned | before.revoking, after.assigned | after.revoking
    lost = [partition for partition in had if partition not in has]
    _disown(group.owners, member_id, lost)
    _disown(group.wanted, member_id, (each for each in before.target if each not in after.target))
    for partition in has:
        group.owners[partition] = member_id
    for partition in after.target:
        group.wanted[partition] = member_id
    presence = group.presences.get(member_id) or Presence()
    if holding is not None:
        group.holdings[member_id] = holding
        group.presences[member_id] = presence
    for partition in lost:
        presence.places.pop(partition, None)
    for partition, epoch in has.items():
        if had.get(partition) != epoch:
            presence.places[partition] = Position()
    for partition in [each for each in presence.revoke_by_ms if each not in after.revoking]:
        del presence.revoke_by_ms[partition]


def _disown(owners: dict[TopicPartition, str], member_id: str, partitions: Iterable[TopicPartition]) -> None:
    for partition in partitions:
        if owners.get(partition) == member_id:
            del owners[partition]


def _holding(record: AssignmentRecord) -> Holding:
    target = frozenset(each for topic, its in record.target.items() for each in share(topic, its))
    return Holding(record.generation, target, _flat(record.assigned), _flat(record.revoking))


def _flat(owned: Owned) -> dict[TopicPartition, int]:
    return {
        each: epoch for topic, its in owned.items() for each, epoch in zip(share(topic, its), its.values(), strict=True)
    }


def assignment_record(group: str, member_id: str, holding: Holding) -> AssignmentRecord:
    """Record of a holding, sorted, so that equal holdings give equal records."""
    numbers: Partitions = {}
    for topic, partition in holding.target:
        numbers.setdefault(topic, []).append(partition)
    return AssignmentRecord(
        group=group,
        member_id=member_id,
        generation=holding.generation,
        target={topic: sorted(numbers[topic]) for topic in sorted(numbers)},
        assigned=_nested(holding.assigned),
        revoking=_nested(holding.revoking),
    )


def _nested(flat: dict[TopicPartition, int]) -> Owned:
    owned: Owned = {}
    for (topic, partition), epoch in flat.items():
        owned.setdefault(topic, {})[partition] = epoch
    return {topic: {each: owned[topic][each] for each in sorted(owned[topic])} for topic in sorted(owned)}
