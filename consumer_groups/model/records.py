"""Records of a group in `__consumer_groups` and `__consumer_offsets`: one per key, the latest counts.

    type        key                        content                                        deleted with
    group       group                      its generation, its topics of dead letters     the group
    member      group, member              options, subscription or assignment, standing  leaving, expiry
    assignment  group, member              what it is to own, owns, and has to give up    the subscription
    topic       group, topic               the topic as the assignment knows it           the last subscription to it
    position    group, topic id, partition where to read instead of the committed offset  the next commit
    skip        group, topic id, partition, offset   a record not to be delivered any more  a commit that passes it
    attempts    group, topic id, partition failed attempts of records                     a commit that passes it
    offset      group, topic id, partition the committed offset: the next one to read     time, the topic, the group
    gone        of another                 deletion of the record of that key

Each record is complete for its key, so the latest records of all keys, in any order, are the state, and a change is
taken back by replaying the record before it. Stored as JSON objects: a field that is added later has a default, and
an unknown one is ignored. It must not know how state is built from them.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from consumer_groups.model.delivery_attempts import Stretch
from consumer_groups.model.options import Options

GROUPS_TABLE: Final = "__consumer_groups"
OFFSETS_TABLE: Final = "__consumer_offsets"

Key = tuple[str | int, ...]
Standing = Literal["active", "lapsed", "away"]
#: By topic.
Partitions = dict[str, list[int]]
#: By topic and partition: the generation in which the member was given it.
Owned = dict[str, dict[int, int]]


class Stored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    group: str


class GroupRecord(Stored, frozen=True, kw_only=True, tag="group"):
    generation: int
    empty_since_ms: int | None = None
    """Time at which its last member left; None while it has members, or never had any."""
    dead_letter_topics: tuple[str, ...] = ()
    """Topics of its dead letters, present or intended; only the latest ones."""

    @property
    def key(self) -> Key:
        return ("group", self.group)


class MemberRecord(Stored, frozen=True, kw_only=True, tag="member"):
    """A member. `topics`, `pattern` and `manual` exclude each other.

    lapsed: it lives, but did not poll in time, and owns nothing until it does.
    away: a static member that left and may come back; it keeps what it owns for a session.
    """

    member_id: str
    options: Options
    joined_at_ms: int
    client_id: str = ""
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    manual: tuple[tuple[str, int], ...] | None = None
    standing: Standing = "active"
    inherited: bool = False
    """Its subscription is that of the static member which it replaced; it has not made its own."""
    since: int = 0
    """Generation in which it joined or came back: requests with an older one are fenced."""

    @property
    def key(self) -> Key:
        return ("member", self.group, self.member_id)

    @property
    def subscribed(self) -> bool:
        return self.topics is not None or self.pattern is not None


class AssignmentRecord(Stored, frozen=True, kw_only=True, tag="assignment"):
    member_id: str
    generation: int
    """Generation in which the assignment was decided."""
    target: Partitions = {}
    assigned: Owned = {}
    revoking: Owned = {}

    @property
    def key(self) -> Key:
        return ("assignment", self.group, self.member_id)


class TopicRecord(Stored, frozen=True, kw_only=True, tag="topic"):
    topic: str
    topic_id: str
    partitions: int

    @property
    def key(self) -> Key:
        return ("topic", self.group, self.topic)


class PositionRecord(Stored, frozen=True, kw_only=True, tag="position"):
    """A position that overrides the committed offset, as it is newer; a commit removes it.

    `resolved`: where the reset policy began, for any member of the group. `sought`: where its owner `member_id` sought;
    it ends with the ownership.
    """

    topic: str
    topic_id: str
    partition: int
    resolved: int | None = None
    sought: int | None = None
    member_id: str | None = None

    @property
    def key(self) -> Key:
        return ("position", self.group, self.topic_id, self.partition)


class SkipRecord(Stored, frozen=True, kw_only=True, tag="skip"):
    """Mark of a dead letter. One that was next in line is marked, too, so that a repeated request is recognized."""

    topic: str
    topic_id: str
    partition: int
    offset: int

    @property
    def key(self) -> Key:
        return ("skip", self.group, self.topic_id, self.partition, self.offset)


class AttemptsRecord(Stored, frozen=True, kw_only=True, tag="attempts"):
    topic: str
    topic_id: str
    partition: int
    stretches: tuple[Stretch, ...] = ()

    @property
    def key(self) -> Key:
        return ("attempts", self.group, self.topic_id, self.partition)


class OffsetRecord(Stored, frozen=True, kw_only=True, tag="offset"):
    topic: str
    topic_id: str
    partition: int
    next_offset: int
    metadata: str = ""
    generation: int = 0
    committed_at_ms: int

    @property
    def key(self) -> Key:
        return ("offset", self.group, self.topic_id, self.partition)


class Gone(Stored, frozen=True, kw_only=True, tag="gone"):
    of: Key

    @property
    def key(self) -> Key:
        return self.of


Record = (
    GroupRecord
    | MemberRecord
    | AssignmentRecord
    | TopicRecord
    | PositionRecord
    | SkipRecord
    | AttemptsRecord
    | OffsetRecord
    | Gone
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Record)


def gone(key: Key) -> Gone:
    return Gone(group=str(key[1]), of=key)


def table_of(record: Record) -> str:
    return OFFSETS_TABLE if record.key[0] == "offset" else GROUPS_TABLE


def encode_record(record: Record) -> bytes:
    return _encoder.encode(record)


def decode_record(data: bytes) -> Record:
    return _decoder.decode(data)


def latest(records: list[Record]) -> list[Record]:
    """Last record of each key, without deleted ones: those that a table has to keep."""
    last: dict[Key, Record] = {}
    for record in records:
        last.pop(record.key, None)
        last[record.key] = record
    return [record for record in last.values() if not isinstance(record, Gone)]
