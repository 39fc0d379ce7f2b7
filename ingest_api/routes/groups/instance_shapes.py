"""Requests and answers of v2's consumer routes, in Karapace's shapes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, TypeVar

import msgspec

from consumer_groups.model.assignment import TopicPartition
from ingest_api.web.errors import Refusal
from ingest_api.web.negotiation import FORMATS, Format
from ingest_api.web.parameters import INT64_MAX
from ingest_api.web.route_spec import Content

#: Most partitions that a body names. A client with more needs several requests.
MOST_NAMED: Final = 10_000
#: Most dead letters of a request, as their records are read whole.
MOST_LETTERS: Final = 100
_MOST_PATTERN: Final = 4_096
_MOST_REASON: Final = 1_000
#: A body may have any media type of v2, as in Karapace.
BODY_TYPES: Final = tuple(name for name, means in FORMATS.items() if means in (Format.BINARY, Format.JSON))

TopicName = Annotated[str, msgspec.Meta(min_length=1, max_length=249)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
Named = TypeVar("Named", bound="PartitionRef")


class PartitionRef(msgspec.Struct, forbid_unknown_fields=True):
    topic: TopicName
    partition: Number

    @property
    def named(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class PartitionRefs(msgspec.Struct, forbid_unknown_fields=True):
    partitions: Annotated[list[PartitionRef], msgspec.Meta(max_length=MOST_NAMED)]


class CommitEntry(PartitionRef, forbid_unknown_fields=True, omit_defaults=True):
    """Either `offset`, of the last record that was processed, or `next_offset`, of the next one."""

    offset: Offset | msgspec.UnsetType = msgspec.UNSET
    next_offset: Offset | msgspec.UnsetType = msgspec.UNSET
    metadata: str | None = None


class CommitRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Without `offsets`: what was delivered."""

    offsets: Annotated[list[CommitEntry], msgspec.Meta(max_length=MOST_NAMED)] | msgspec.UnsetType = msgspec.UNSET


class PositionEntry(PartitionRef, forbid_unknown_fields=True, omit_defaults=True):
    """Either the `offset` to read next, or the `timestamp` in milliseconds at or after which to begin."""

    offset: Offset | msgspec.UnsetType = msgspec.UNSET
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=253402300799999)] | msgspec.UnsetType = msgspec.UNSET


class PositionsRequest(msgspec.Struct, forbid_unknown_fields=True):
    offsets: Annotated[list[PositionEntry], msgspec.Meta(max_length=MOST_NAMED)]


class DeadLetter(PartitionRef, forbid_unknown_fields=True):
    """A record, and in words why it could not be processed."""

    offset: Offset
    reason: Annotated[str, msgspec.Meta(max_length=_MOST_REASON)]


class DeadLettersRequest(msgspec.Struct, forbid_unknown_fields=True):
    records: Annotated[list[DeadLetter], msgspec.Meta(min_length=1, max_length=MOST_LETTERS)]


class SubscriptionRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Either `topics`, or a `topic_pattern` that their whole names match."""

    topics: Annotated[list[TopicName], msgspec.Meta(max_length=MOST_NAMED)] | None = None
    topic_pattern: Annotated[str, msgspec.Meta(max_length=_MOST_PATTERN)] | None = None


class HeartbeatRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`owned` is what is being revoked and was not given up yet."""

    owned: Annotated[list[PartitionRef], msgspec.Meta(max_length=MOST_NAMED)] | msgspec.UnsetType = msgspec.UNSET


class InstanceView(msgspec.Struct):
    instance_id: str
    base_uri: str


class SubscriptionView(msgspec.Struct):
    topics: list[str]


class PartitionRefView(msgspec.Struct):
    topic: str
    partition: int


class AssignmentsView(msgspec.Struct):
    partitions: list[PartitionRefView]


class RecordHeader(msgspec.Struct):
    """The value is base64."""

    name: str
    value: str | None


class PolledRecord(msgspec.Struct):
    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: list[RecordHeader]


class BinaryRecord(PolledRecord):
    """Key and value are base64."""

    key: str | None
    value: str | None


class JsonRecord(PolledRecord):
    """Key and value as JSON where they are JSON, else a string where they are text, else `{"base64": …}`."""

    key: Any
    value: Any


class CommittedView(msgspec.Struct):
    """`offset` is the next one to read; -1 where nothing is committed."""

    topic: str
    partition: int
    offset: int
    metadata: str


class CommittedOffsetsView(msgspec.Struct):
    offsets: list[CommittedView]


class LetterPlace(msgspec.Struct):
    topic: str
    partition: int
    offset: int


class DeadLetterView(LetterPlace):
    """`letter` is where its copy is; null where it was copied before, or there is nothing to copy any more."""

    letter: LetterPlace | None


class DeadLettersView(msgspec.Struct):
    records: list[DeadLetterView]


class HeartbeatView(msgspec.Struct):
    """`since` is the generation in which each assigned partition was given, by topic and partition.

    One that was given again may have been another's meanwhile. Of what the instance chose itself there is none.
    """

    generation: int
    assigned: list[PartitionRefView]
    revoking: list[PartitionRefView]
    since: dict[str, dict[str, int]]


def takes(shape: object, *, required: bool = True, doc: str = "") -> Content:
    return Content(dict.fromkeys(BODY_TYPES, shape), required=required, doc=doc)


def show_partitions(partitions: Iterable[TopicPartition]) -> list[PartitionRefView]:
    return [PartitionRefView(*each) for each in partitions]


def each_once(entries: Sequence[Named]) -> dict[TopicPartition, Named]:
    """Map entries by their partitions. A partition named twice is refused: its entries could contradict."""
    found = {each.named: each for each in entries}
    if len(found) < len(entries):
        seen: set[TopicPartition] = set()
        for each in entries:
            if each.named in seen:
                raise Refusal(422, f"{each.topic}-{each.partition} is given twice")
            seen.add(each.named)
    return found
