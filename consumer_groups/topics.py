"""The log as groups see it: which topics there are, asked in a thread, and how far each goes, asked when it matters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from consumer_groups.assignment import TopicPartition
from consumer_groups.cluster import Cluster, Topic
from consumer_groups.records import OffsetRecord, PositionRecord, Record, TopicRecord
from delta_log import LakelogError, Log, PartitionOffsets
from delta_log.errors import UnknownTopic


def load_cluster(log: Log, known: Mapping[str, Topic], custom_assignors: Collection[str] = ()) -> Cluster:
    """A topic that is there but cannot be asked is as it was known: nobody loses offsets over trouble that passes."""
    topics: list[Topic] = []
    for name in log.topics():
        try:
            info = log.describe_topic(name)
        except UnknownTopic:
            continue
        except LakelogError:
            if name in known:
                topics.append(known[name])
            continue
        topics.append(Topic(info.name, info.id, info.partitions))
    return Cluster(topics, custom_assignors)


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
    """Asks the log; of what it does not have or cannot read there is None."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def get(self, key: TopicPartition, /) -> PartitionOffsets | None:
        try:
            return self._log.offsets(*key)
        except LakelogError:
            return None
