"""Draft of a group: its state as a decision in progress would leave it.

Reads fall through to the group, writes stay here, and `decide` turns them into records. It knows how a partition is
given and taken; it must not know why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster
from consumer_groups.model.delivery_attempts import Attempts
from consumer_groups.model.records import (
    AttemptsRecord,
    GroupRecord,
    Key,
    MemberRecord,
    OffsetRecord,
    PositionRecord,
    Record,
    TopicRecord,
    gone,
)
from consumer_groups.state.decision import Decision
from consumer_groups.state.member_session import Note, PartitionAssigned, Position, Presence, RevokeBy
from consumer_groups.state.state import Group, Holding, assignment_record

Reply = TypeVar("Reply")
_NOBODY = Presence(answer=-1)
_MOST_LETTER_TOPICS: Final = 10


class Draft:
    """The draft of one decision."""

    def __init__(self, group: Group, cluster: Cluster, now_ms: int) -> None:
        self.group = group
        self.cluster = cluster
        self.now_ms = now_ms
        self.generation = group.generation
        self.empty_since_ms = group.empty_since_ms
        self.dead_letter_topics = group.dead_letter_topics
        self.members: Mapping[str, MemberRecord] = group.members
        self.wanted: Mapping[TopicPartition, str] = group.wanted
        self.topics: Mapping[str, TopicRecord] = group.topics
        self.notes: list[Note] = []
        self._records: dict[Key, Record] = {}
        self._holdings: dict[str, Holding | None] = {}
        self._owners: dict[TopicPartition, str | None] = {}
        self._gained: dict[str, dict[TopicPartition, None]] = {}

    # --- what is

    def holding(self, member_id: str) -> Holding | None:
        if member_id in self._holdings:
            return self._holdings[member_id]
        return self.group.holdings.get(member_id)

    def owner(self, partition: TopicPartition) -> str | None:
        return self._owners[partition] if partition in self._owners else self.group.owners.get(partition)

    def presence(self, member_id: str) -> Presence:
        return self.group.presences.get(member_id, _NOBODY)

    def place(self, member_id: str, partition: TopicPartition) -> Position | None:
        """Position of a member; None also if this decision gave it the partition: nothing was delivered from it yet."""
        if partition in self._gained.get(member_id, ()):
            return None
        return self.presence(member_id).places.get(partition)

    def committed(self, topic_id: str, partition: int) -> int | None:
        record = self._records.get(("offset", self.group.name, topic_id, partition))
        return record.next_offset if isinstance(record, OffsetRecord) else self.group.committed(topic_id, partition)

    def position(self, topic_id: str, partition: int) -> PositionRecord | None:
        record = self._records.get(("position", self.group.name, topic_id, partition))
        if record is not None:
            return record if isinstance(record, PositionRecord) else None
        return self.group.positions.get((topic_id, partition))

    def attempts(self, topic_id: str, partition: int) -> Attempts:
        record = self._records.get(("attempts", self.group.name, topic_id, partition))
        if record is not None:
            return Attempts(record.stretches if isinstance(record, AttemptsRecord) else ())
        return self.group.attempts_at(topic_id, partition)

    # --- what is to be

    def put(self, record: Record) -> None:
        """Put a record: offsets and positions directly, all others through the methods below."""
        self._records[record.key] = record

    def drop(self, key: Key) -> None:
        self._records[key] = gone(key)

    def put_member(self, record: MemberRecord) -> None:
        self.members = {**self.members, record.member_id: record}
        self.empty_since_ms = None
        self.put(record)

    def drop_member(self, member_id: str) -> None:
        self.members = {name: record for name, record in self.members.items() if name != member_id}
        self.drop(("member", self.group.name, member_id))
        if not self.members:
            self.empty_since_ms = self.now_ms

    def note_dead_letters(self, topic: str) -> None:
        """Remember a dead-letter topic; only the latest ones are kept."""
        if topic not in self.dead_letter_topics:
            self.dead_letter_topics = (*self.dead_letter_topics, topic)[-_MOST_LETTER_TOPICS:]

    def put_topics(self, topics: Mapping[str, TopicRecord]) -> None:
        """Set the topics of the assignment."""
        for name, record in self.topics.items():
            if name not in topics:
                self.drop(record.key)
        for name, record in topics.items():
            if self.topics.get(name) != record:
                self.put(record)
        self.topics = topics

    def hold(self, member_id: str) -> Holding:
        """The holding of a member, to be changed."""
        held = self._holdings.get(member_id)
        if held is None:
            known = self.holding(member_id) or Holding()
            held = replace(known, assigned=dict(known.assigned), revoking=dict(known.revoking))
            self._holdings[member_id] = held
        return held

    def drop_holding(self, member_id: str) -> None:
        """Drop a holding whose partitions have been released."""
        self._holdings[member_id] = None

    def pass_holding(self, old: str, new: str) -> None:
        """Pass the partitions of a static member to its successor, without positions or sessions."""
        held = self.hold(old)
        self._holdings[old] = None
        taken = dict.fromkeys([*held.assigned, *held.revoking], self.generation)
        target = held.target
        self._holdings[new] = Holding(
            self.generation,
            target,
            {each: epoch for each, epoch in taken.items() if each in target},
            {each: epoch for each, epoch in taken.items() if each not in target},
        )
        self._owners |= dict.fromkeys(taken, new)
        self._gained.setdefault(new, {}).update(dict.fromkeys(taken))
        self.wanted = {each: new if who == old else who for each, who in self.wanted.items()}

    def set_target(self, member_id: str, target: frozenset[TopicPartition]) -> None:
        self.hold(member_id).target = target

    def give(self, partition: TopicPartition) -> None:
        """Give a partition to its target owner if it is free."""
        member_id = self.wanted.get(partition)
        if member_id is not None and self.owner(partition) is None:
            self.hold(member_id).assigned[partition] = self.generation
            self._owners[partition] = member_id
            self._gained.setdefault(member_id, {})[partition] = None

    def give_freed(self) -> None:
        """Give all partitions that this decision freed."""
        for partition in [each for each, owner in self._owners.items() if owner is None]:
            self.give(partition)

    def take(self, member_id: str, partition: TopicPartition) -> None:
        """Take a partition from a member: it is free now."""
        held = self.hold(member_id)
        held.assigned.pop(partition, None)
        held.revoking.pop(partition, None)
        self._owners[partition] = None
        self._gained.get(member_id, {}).pop(partition, None)

    def revoke(self, member_id: str, partitions: Iterable[TopicPartition], by_ms: int) -> None:
        """Revoke partitions: they move when their owner is done with what it was given, at the latest at `by_ms`."""
        held = self.hold(member_id)
        revoked = tuple(each for each in partitions if each in held.assigned)
        for each in revoked:
            held.revoking[each] = held.assigned.pop(each)
        if revoked:
            self.notes.append(RevokeBy(member_id, revoked, by_ms))

    # --- the decision

    def decide(self, reply: Reply) -> Decision[Reply]:
        """Turn the draft into a decision, without records that change nothing."""
        woken = {member_id for member_id in self._holdings if self._put_holding(member_id)}
        if self._records:
            self.put(
                GroupRecord(
                    group=self.group.name,
                    generation=self.generation,
                    empty_since_ms=self.empty_since_ms,
                    dead_letter_topics=self.dead_letter_topics,
                )
            )
        table = self.group.table
        records = tuple(record for key, record in self._records.items() if (table.get(key) or gone(key)) != record)
        gains = [PartitionAssigned(member_id, tuple(its)) for member_id, its in self._gained.items() if its]
        notes = (*gains, *self.notes)
        return Decision(self.group.name, reply, self.generation, records, notes, frozenset(woken))

    def _put_holding(self, member_id: str) -> bool:
        held, known = self._holdings[member_id], self.group.holdings.get(member_id)
        if held is None:
            self.drop(("assignment", self.group.name, member_id))
        elif known is None or replace(held, generation=known.generation) != known:
            held.generation = self.generation
            self.put(assignment_record(self.group.name, member_id, held))
        else:
            return False
        return True
