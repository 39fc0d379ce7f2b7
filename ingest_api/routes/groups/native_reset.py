"""The partitions of a reset, and the target of each."""

from __future__ import annotations

from collections.abc import Sequence

from consumer_groups.decisions.admin import Found, GroupDescription, Shift, Target
from consumer_groups.model.assignment import TopicPartition
from delta_log import Log
from delta_log.model.errors import InvalidName, UnknownPartition, UnknownTopic
from ingest_api.routes.groups.native_shapes import MOST_PARTITIONS, ChosenPartition, NewOffset, ResetRequest
from ingest_api.web.errors import Refusal


def check_reset(asked: ResetRequest) -> None:
    """Refuse a reset whose target or choice of partitions is missing or ambiguous."""
    given = [name for name in ("to", "timestamp", "offset", "shift") if getattr(asked, name) is not None]
    if len(given) != 1:
        said = ", ".join(given) or "none of them"
        raise Refusal(422, f"a reset needs exactly one of to, timestamp, offset and shift; given are {said}")
    if asked.topics is not None and asked.partitions is not None:
        raise Refusal(422, "a reset is of topics or of partitions, not of both")


def partitions_of(given: Sequence[ChosenPartition] | Sequence[NewOffset]) -> list[TopicPartition]:
    """List the partitions; refuses one that is named twice."""
    found = [TopicPartition(each.topic, each.partition) for each in given]
    check_number(len(found))
    seen: set[TopicPartition] = set()
    for each in found:
        if each in seen:
            raise Refusal(422, f"{each.topic}-{each.partition} is named twice")
        seen.add(each)
    return found


def find_targets(log: Log, asked: ResetRequest, group: GroupDescription) -> dict[TopicPartition, Target]:
    """Find the target of each partition; looking up times may wait for the disk."""
    if asked.partitions is not None:
        chosen = partitions_of(asked.partitions)
    elif asked.topics is not None:
        chosen = [TopicPartition(topic, each) for topic in set(asked.topics) for each in range(_count(log, topic))]
    else:
        chosen = [TopicPartition(each.topic, each.partition) for each in group.committed]
    check_number(len(chosen))
    counts = {topic: _count(log, topic) for topic in {each.topic for each in chosen}}
    for topic, number in chosen:
        if number >= counts[topic]:
            raise UnknownPartition(topic, number, counts[topic])
    return {each: _target(log, asked, each) for each in chosen}


def check_number(partitions: int) -> None:
    if partitions > MOST_PARTITIONS:
        raise Refusal(422, f"these are {partitions} partitions, and a request may have {MOST_PARTITIONS}: name fewer")


def _count(log: Log, topic: str) -> int:
    """Count the partitions of a topic. An invalid name is that of an unknown topic."""
    try:
        return log.describe_topic(topic).partitions
    except InvalidName:
        raise UnknownTopic(topic) from None


def _target(log: Log, asked: ResetRequest, partition: TopicPartition) -> Target:
    if asked.to is not None:
        return asked.to
    if asked.offset is not None:
        return asked.offset
    if asked.shift is not None:
        return Shift(asked.shift)
    return Found(log.offset_at(*partition, asked.timestamp or 0))
