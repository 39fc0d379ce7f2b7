"""The log as groups see it: the list of topics, loaded in a thread, and the offsets of partitions, read on demand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster, Topic
from consumer_groups.model.records import OffsetRecord, PositionRecord, Record, TopicRecord
from delta_log import LakelogError, Log, PartitionOffsets
from delta_log.model.errors import UnknownTopic


class Seen(NamedTuple):
    """Snapshot of the topics; `closed`: existing topics that could not be opened."""

    cluster: Cluster
    closed: frozenset[str]


def load_cluster(log: Log, known: Mapping[str, Topic], custom_assignors: Collection[str] = ()) -> Seen:
    """List the topics. One that exists but fails keeps its known state: a transient error must not cost offsets."""
    topics: list[Topic] = []
    closed: set[str] = set()
    for name in log.topics():
        try:
            info = log.describe_topic(name)
        except UnknownTopic:
            continue
        except LakelogError:
            closed.add(name)
            if name in known:
                topics.append(known[name])
            continue
        topics.append(Topic(info.name, info.id, info.partitions))
    return Seen(Cluster(topics, custom_assignors), frozenset(closed))


def topics_in(records: Sequence[Record]) -> dict[str, Topic]:
    """Topics as far as group records name them."""
    found: dict[str, Topic] = {}
    for record in records:
        if isinstance(record, TopicRecord):
            found[record.topic] = Topic(record.topic, record.topic_id, record.partitions)
    for record in records:
        if isinstance(record, (OffsetRecord, PositionRecord)):
            other = found.get(record.topic)
            if other is None or (other.topic_id == record.topic_id and other.partitions <= record.partition):
                found[record.topic] = Topic(record.topic, record.topic_id, record.partition + 1)
    return found


class LogOffsets:
    """Offsets of partitions from the log; None for what it does not have or cannot read.

    Topics in `closed` are not read: that would try to open them, which the loop must not wait for.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.closed: frozenset[str] = frozenset()

    def get(self, key: TopicPartition, /) -> PartitionOffsets | None:
        if key.topic in self.closed:
            return None
        try:
            return self._log.offsets(*key)
        except LakelogError:
            return None
