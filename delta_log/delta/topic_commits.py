"""Plans the commits that create, change and delete a topic. Pure: a snapshot in, actions out.

A topic's metadata is in its table's properties: its id, its number of partitions, its settings, and a mark if it was
deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from delta_log.delta.actions import Action, CommitInfo, MetaData, Protocol, Remove, Txn
from delta_log.delta.conflicts import TOPIC_ID
from delta_log.delta.snapshot import EPOCH_TXN, Snapshot, clean_txn, end_txn, start_txn, tombstones_txns
from delta_log.model.errors import InvalidPartitions, PlanOutdated, TooManyPartitions, TopicExists
from delta_log.model.lost_ranges import LOST
from delta_log.model.schema import FILE_SCHEMA, delta_schema
from delta_log.model.topic_config import TopicConfig

PARTITIONS: Final = "lakelog.partitions"
DELETED: Final = "lakelog.deleted.ms"
#: Time of the table's export to other writers; it is no topic since.
EXPORTED: Final = "lakelog.exported.ms"
MAX_PARTITIONS: Final = 10_000
MAX_PARTITIONS_IN_ALL: Final = 50_000
_OWN_PROPERTIES: Final = (TOPIC_ID, PARTITIONS, LOST)

ConfigValue = str | int | float | None


@dataclass(frozen=True, slots=True)
class PartitionLimits:
    """Limits on the partitions of a topic, and of all topics. Topics that exceed them already stay as they are."""

    per_topic: int = MAX_PARTITIONS
    in_all: int = MAX_PARTITIONS_IN_ALL

    def check(self, topic: str, partitions: object, had: int, present: int) -> None:
        """Check a new number of partitions. `had`: of this topic before; `present`: of all topics."""
        check_partition_count(topic, partitions)
        if type(partitions) is int and partitions > self.per_topic:
            raise TooManyPartitions(topic, partitions, "max_partitions_per_topic", self.per_topic)
        if type(partitions) is int and present - had + partitions > self.in_all:
            raise TooManyPartitions(topic, partitions, "max_partitions", self.in_all, present)


@dataclass(frozen=True, slots=True)
class Author:
    """Author of a commit, with its time."""

    commit_id: str
    now_ms: int
    epoch: int

    def info(self, operation: str, snapshot: Snapshot, topic_id: str) -> CommitInfo:
        return CommitInfo(
            self.commit_id,
            self.now_ms,
            operation,
            read_version=snapshot.version,
            epoch=self.epoch,
            facts={"topicId": topic_id},
        )


@dataclass(frozen=True, slots=True)
class NewTopic:
    """Initial state of a topic, or of an internal table.

    `table_id` is used if a new table is created for it; `also` are further properties.
    """

    name: str
    id: str
    table_id: str
    partitions: int
    config: TopicConfig
    schema: pa.Schema = FILE_SCHEMA
    partitioned: bool = True
    also: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def properties(self) -> dict[str, str]:
        own = {TOPIC_ID: self.id, PARTITIONS: str(self.partitions), **self.also}
        return own | _delta_properties(self.config) | self.config.to_properties()


def plan_creation(snapshot: Snapshot, topic: NewTopic, author: Author) -> list[Action]:
    """Plan the first commit of a table, or reuse the table of a deleted topic.

    The versions of a reused table continue, so that no plan made for the former topic can be committed to this one.
    """
    info = author.info("CREATE TABLE", snapshot, topic.id)
    epoch = Txn(EPOCH_TXN, author.epoch)
    if snapshot.metadata is None:
        schema = delta_schema(topic.schema, partitioned=topic.partitioned)
        columns = ("partition",) if topic.partitioned else ()
        metadata = MetaData(topic.table_id, schema, columns, topic.properties, author.now_ms)
        ends = [Txn(end_txn(index), 0) for index in range(topic.partitions)]
        return [info, Protocol(), metadata, *ends, epoch]
    if DELETED not in snapshot.configuration:
        raise TopicExists(topic.name, topic.name)
    partitions = max(topic.partitions, int(snapshot.configuration[PARTITIONS]))
    resets = [Txn(name(index), 0) for index in range(partitions) for name in (end_txn, start_txn)]
    marks = [name for index in range(partitions) for name in (clean_txn(index), *tombstones_txns(index))]
    resets += [Txn(name, 0) for name in marks if name in snapshot.txns]
    return [info, _with_properties(snapshot.metadata, topic.properties), *resets, epoch]


def plan_alteration(
    snapshot: Snapshot,
    topic: str,
    topic_id: str,
    changes: Mapping[str, ConfigValue],
    defaults: Mapping[str, object],
    author: Author,
) -> list[Action]:
    """Plan a change of settings, from the newest ones, so that two concurrent changes both take effect."""
    metadata = _alive(snapshot, topic, topic_id)
    config = TopicConfig.from_properties(metadata.configuration, server_defaults=defaults).alter(changes)
    kept = {key: value for key, value in metadata.configuration.items() if key in _OWN_PROPERTIES}
    changed = _with_properties(metadata, kept | _delta_properties(config) | config.to_properties())
    return [author.info("SET TBLPROPERTIES", snapshot, topic_id), changed]


def plan_more_partitions(
    snapshot: Snapshot, topic: str, topic_id: str, partitions: int, author: Author
) -> list[Action]:
    """Plan a larger number of partitions; it can never be lowered."""
    metadata = _alive(snapshot, topic, topic_id)
    present = int(metadata.configuration[PARTITIONS])
    if type(partitions) is not int or partitions <= present:
        raise InvalidPartitions(topic, partitions, f"it has {present}; partitions can be added, never removed")
    check_partition_count(topic, partitions)
    changed = _with_properties(metadata, metadata.configuration | {PARTITIONS: str(partitions)})
    ends = [Txn(end_txn(index), 0) for index in range(present, partitions)]
    return [author.info("SET TBLPROPERTIES", snapshot, topic_id), changed, *ends]


def plan_deletion(snapshot: Snapshot, topic: str, topic_id: str, author: Author) -> list[Action]:
    """Plan to remove every file and mark the table deleted, in one commit; empty if that was done before."""
    if snapshot.configuration.get(TOPIC_ID) != topic_id or DELETED in snapshot.configuration:
        return []
    metadata = _alive(snapshot, topic, topic_id)
    marked = _with_properties(metadata, metadata.configuration | {DELETED: str(author.now_ms)})
    gone = [Remove(file.path, file.partition, file.size, author.now_ms) for file in snapshot.all_files()]
    return [author.info("SET TBLPROPERTIES", snapshot, topic_id), marked, *gone]


def check_partition_count(topic: str, partitions: object) -> None:
    if type(partitions) is not int or not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidPartitions(topic, partitions, f"it must be a whole number from 1 to {MAX_PARTITIONS}")


def _alive(snapshot: Snapshot, topic: str, topic_id: str) -> MetaData:
    properties = snapshot.configuration
    if snapshot.metadata is None or properties.get(TOPIC_ID) != topic_id or DELETED in properties:
        raise PlanOutdated(topic, "the topic was deleted or created anew")
    return snapshot.metadata


def _with_properties(metadata: MetaData, properties: Mapping[str, str]) -> MetaData:
    return MetaData(metadata.id, metadata.schema, metadata.partition_columns, dict(properties), metadata.created_ms)


def _delta_properties(config: TopicConfig) -> dict[str, str]:
    """The Delta properties for the length of history, as other engines read it."""
    history = f"interval {config.history_ms} milliseconds"
    return {"delta.logRetentionDuration": history, "delta.deletedFileRetentionDuration": history}
