"""The log as groups see it: which topics there are, asked in a thread, and how far each goes, asked when it matters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster, Topic
from consumer_groups.model.records import OffsetRecord, PositionRecord, Record, TopicRecord
from delta_log import LakelogError, Log, PartitionOffsets
from delta_log.model.errors import UnknownTopic


class Seen(NamedTuple):
    """The topics at one look; `closed` are those that are there and could not be asked."""

    cluster: Cluster
    closed: frozenset[str]


def load_cluster(log: Log, known: Mapping[str, Topic], custom_assignors: Collection[str] = ()) -> Seen:
    """A topic that is there but cannot be asked is as it was known: nobody loses offsets over trouble that passes."""
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
    """The topics as records remember them."""
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
    """Asks the log; of what it does not have or cannot read there is None.

    To ask for one that is `closed` is to try to open it, which a loop must not wait for.
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
