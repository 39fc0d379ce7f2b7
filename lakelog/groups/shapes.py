"""Descriptions of groups: small values as the server returns them. Times are in milliseconds since 1970."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from lakelog.foundation.topic_partition import TopicPartition

GroupState = Literal["Empty", "Stable", "Reconciling", "Dead"]


class GroupListing(msgspec.Struct, frozen=True):
    """A group. `assignor`: None without subscriptions; `dead_letter_topics`: those that its members named or filled."""

    group: str
    state: GroupState
    generation: int
    assignor: str | None
    members: int
    dead_letter_topics: tuple[str, ...] = ()


class GroupMember(NamedTuple):
    """A member. `assigned`: partitions that it may read; `revoking`: those that it must give up.

    `standing` is `active`; `lapsed`: alive, but it did not poll in time; `away`: a static member that may come back.
    """

    instance_id: str
    client_id: str
    group_instance_id: str | None
    standing: str
    topics: tuple[str, ...] | None
    topic_pattern: str | None
    assigned: tuple[TopicPartition, ...]
    revoking: tuple[TopicPartition, ...]


class GroupPartition(msgspec.Struct, frozen=True):
    """Progress of a group in one partition. `next_offset` is the next one to read, None if nothing is committed.

    `lag` counts the records from there to the end; if nothing is committed, from where the owner begins. It is None if
    unknown.
    """

    topic: str
    partition: int
    owner: str | None
    next_offset: int | None
    log_start_offset: int | None
    end_offset: int | None
    lag: int | None
    metadata: str | None
    committed_at_ms: int | None


class GroupDescription(NamedTuple):
    """A group in detail. `lag`: the sum of the known lags; `assignor`: None without subscriptions."""

    group: str
    state: GroupState
    generation: int
    assignor: str | None
    lag: int
    members: tuple[GroupMember, ...]
    partitions: dict[TopicPartition, GroupPartition]


class OffsetReset(NamedTuple):
    """Offsets before and after a reset; `before` is None if nothing was committed."""

    before: int | None
    after: int


class Place(msgspec.Struct):
    topic: str
    partition: int


class Member(msgspec.Struct):
    instance_id: str
    client_id: str
    group_instance_id: str | None
    standing: str
    topics: tuple[str, ...] | None
    topic_pattern: str | None
    assigned: list[Place]
    revoking: list[Place]


class Group(msgspec.Struct):
    """The server's description of a group."""

    group: str
    state: GroupState
    generation: int
    assignor: str | None
    lag: int
    members: list[Member]
    partitions: list[GroupPartition]


class Groups(msgspec.Struct):
    groups: list[GroupListing]


class Committed(msgspec.Struct):
    topic: str
    partition: int
    next_offset: int
    metadata: str


class CommittedOffsets(msgspec.Struct):
    offsets: list[Committed]


class ResetPlace(msgspec.Struct):
    topic: str
    partition: int
    before: int | None
    after: int


class Resets(msgspec.Struct):
    partitions: list[ResetPlace]
