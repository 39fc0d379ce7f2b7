"""Values that a consumer hands out. Pure, and hot: an answer of the server is decoded straight into records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from lakelog.foundation.errors import LakelogError
from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    Content = Any
else:
    #: As it arrives; a deserializer may replace it by any value.
    Content = bytes | None


class Header(msgspec.Struct, gc=False):
    name: str
    value: bytes | None


class ConsumerRecord(msgspec.Struct, gc=False):
    """A record. `timestamp` is in milliseconds since 1970; `key` and `value` are deserialized.

    A missing key or value is None.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Content
    value: Content
    headers: tuple[Header, ...] = ()


#: Called with the error or None, and the offsets of the commit.
OnCommit = Callable[[LakelogError | None, dict[TopicPartition, OffsetAndMetadata]], object]


class GroupMetadata(NamedTuple):
    """Identity of a consumer in its group. While it is no member, `generation` is -1 and `member_id` empty."""

    group_id: str
    member_id: str
    generation: int
    group_instance_id: str | None


class GroupOffsets(NamedTuple):
    """Next offsets to read, for a group to commit, with the member and the generation that assigned the partitions."""

    group_id: str
    member_id: str | None
    generation: int | None
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
