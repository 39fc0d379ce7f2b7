"""Subscriptions of a consumer, and checks of a caller's arguments: partitions, offsets, topics. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lakelog.consume.shapes import ConsumerRecord
from lakelog.foundation.errors import IllegalState
from lakelog.foundation.names import check_topic
from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition

Partition = tuple[str, int]
Offset = int | OffsetAndMetadata


class Topics(NamedTuple):
    names: tuple[str, ...]


class Pattern(NamedTuple):
    text: str


class Manual(NamedTuple):
    partitions: tuple[TopicPartition, ...]


Wanted = Topics | Pattern | Manual


class Spot(NamedTuple):
    """Partition and offset of a record."""

    partition: TopicPartition
    offset: int


def read_spot(record: ConsumerRecord) -> Spot:
    (partition,) = read_partitions([(record.topic, record.partition)])
    return Spot(partition, read_offset(record.offset))


def read_wanted(topics: Iterable[str] | str | None, pattern: str | None) -> Topics | Pattern:
    if (topics is None) == (pattern is None):
        raise IllegalState("a subscription is either to topics or to a pattern")
    if pattern is not None:
        return Pattern(pattern)
    chosen = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics or ()))
    for topic in chosen:
        check_topic(topic)
    if not chosen:
        raise IllegalState("a subscription is to one topic at least; unsubscribe ends one")
    return Topics(chosen)


def read_partitions(given: Iterable[Partition]) -> list[TopicPartition]:
    partitions: list[TopicPartition] = []
    for topic, partition in given:
        check_topic(topic)
        if type(partition) is not int or partition < 0:
            raise IllegalState(f"a partition is a whole number, 0 or more, not {partition!r}")
        partitions.append(TopicPartition(topic, partition))
    return list(dict.fromkeys(partitions))


def read_offset(given: object) -> int:
    if type(given) is not int or given < 0:
        raise IllegalState(f"an offset is a whole number, 0 or more, not {given!r}")
    return given


def read_offsets(given: Mapping[Partition, Offset] | None) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """The offsets to commit, each a number or a number with metadata."""
    if given is None:
        return None
    entries = [OffsetAndMetadata(each) if isinstance(each, int) else each for each in given.values()]
    for offset, _ in entries:
        read_offset(offset)
    return dict(zip(read_partitions(given), entries, strict=True))
