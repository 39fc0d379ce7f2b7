"""What a consumer hands out. Pure, and hot: an answer of the server is decoded straight into records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lakelog.foundation.errors import LakelogError
from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    Content = Any
else:
    #: As it arrives; a deserializer puts something else in its place.
    Content = bytes | None


class Header(msgspec.Struct, gc=False):
    name: str
    value: bytes | None


class ConsumerRecord(msgspec.Struct, gc=False):
    """A record. `timestamp` is in milliseconds since 1970; `key` and `value` are what the deserializers made of them.

    A key or value that is not there is None.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Content
    value: Content
    headers: tuple[Header, ...] = ()


#: The error or None, and what was to be committed.
OnCommit = Callable[[LakelogError | None, dict[TopicPartition, OffsetAndMetadata]], object]


class GroupMetadata(NamedTuple):
    """Who a consumer is within its group. `generation` is -1 and `member_id` empty as long as it is no member."""

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None


class GroupOffsets(NamedTuple):
    """The next offsets to read, for a group to commit: of a member, who was given the partitions by that generation."""

    group_id: str
    member_id: str | None
    generation: int | None
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
