"""Answers of v3: Confluent's resources, each with links to itself and to related ones. Pure.

Links work, except those that Confluent's schema requires for resources that do not exist here: access control,
settings and replicas of brokers, reassignments. Clients generated from that schema refuse an answer without them.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from delta_log.model.topic_config import Described
from delta_log.topics.catalog import TopicInfo

T = TypeVar("T")


class Metadata(msgspec.Struct):
    """`self` is where the resource is, `resource_name` what it is called wherever it is."""

    self_: str = msgspec.field(name="self")
    resource_name: str


class ListMetadata(msgspec.Struct):
    """Everything is on one page: `next` is null."""

    self_: str = msgspec.field(name="self")
    next: str | None = None


class Related(msgspec.Struct):
    related: str


class Listed(msgspec.Struct, Generic[T]):
    kind: str
    metadata: ListMetadata
    data: list[T]


class Cluster(msgspec.Struct):
    kind: str
    metadata: Metadata
    cluster_id: str
    controller: Related
    acls: Related
    brokers: Related
    broker_configs: Related
    consumer_groups: Related
    topics: Related
    partition_reassignments: Related


class Broker(msgspec.Struct):
    kind: str
    metadata: Metadata
    cluster_id: str
    broker_id: int
    host: str
    port: int
    configs: Related
    partition_replicas: Related
    rack: str | None = None


class Topic(msgspec.Struct):
    kind: str
    metadata: Metadata
    cluster_id: str
    topic_name: str
    is_internal: bool
    replication_factor: int
    partitions_count: int
    partitions: Related
    configs: Related
    partition_reassignments: Related


class Synonym(msgspec.Struct):
    name: str
    value: str
    source: str


class Config(msgspec.Struct):
    kind: str
    metadata: Metadata
    cluster_id: str
    topic_name: str
    name: str
    value: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool
    source: str
    synonyms: list[Synonym]


class Partition(msgspec.Struct):
    kind: str
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    leader: Related
    replicas: Related
    reassignment: Related


class PartitionOffsets(msgspec.Struct):
    """Where a partition begins, and the next offset that a record will be given."""

    kind: str
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    earliest_offset: int
    latest_offset: int


class Replica(msgspec.Struct):
    kind: str
    metadata: Metadata
    cluster_id: str
    topic_name: str
    partition_id: int
    broker_id: int
    is_leader: bool
    is_in_sync: bool
    broker: Related


class View:
    """Makes the resources of a cluster with one broker, with links that begin with one address."""

    def __init__(self, base: str, cluster: str, broker: int) -> None:
        self._clusters = f"{base}/v3/clusters"
        self.cluster_id = cluster
        self.broker_id = broker

    def listed(self, kind: str, path: str, data: list[T]) -> Listed[T]:
        return Listed(f"{kind}List", ListMetadata(self.link(path)), data)

    def clusters(self) -> Listed[Cluster]:
        return Listed("KafkaClusterList", ListMetadata(self._clusters), [self.cluster()])

    def cluster(self) -> Cluster:
        return Cluster(
            "KafkaCluster",
            self.metadata("", ""),
            self.cluster_id,
            self.related(f"/brokers/{self.broker_id}"),
            self.related("/acls"),
            self.related("/brokers"),
            self.related("/broker-configs"),
            self.related("/consumer-groups"),
            self.related("/topics"),
            self.related("/topics/-/partitions/-/reassignment"),
        )

    def broker(self, host: str, port: int) -> Broker:
        path = f"/brokers/{self.broker_id}"
        return Broker(
            "KafkaBroker",
            self.metadata(path, f"/broker={self.broker_id}"),
            self.cluster_id,
            self.broker_id,
            host,
            port,
            self.related(f"{path}/configs"),
            self.related(f"{path}/partition-replicas"),
        )

    def topic(self, name: str, partitions: int) -> Topic:
        path = f"/topics/{name}"
        return Topic(
            "KafkaTopic",
            self.metadata(path, f"/topic={name}"),
            self.cluster_id,
            name,
            name.startswith("__"),
            1,
            partitions,
            self.related(f"{path}/partitions"),
            self.related(f"{path}/configs"),
            self.related(f"{path}/partitions/-/reassignment"),
        )

    def config(self, topic: TopicInfo, setting: Described) -> Config:
        return Config(
            "KafkaTopicConfig",
            self.metadata(f"/topics/{topic.name}/configs/{setting.name}", f"/topic={topic.name}/config={setting.name}"),
            self.cluster_id,
            topic.name,
            setting.name,
            setting.value,
            is_default=setting.source == "DEFAULT_CONFIG",
            is_read_only=False,
            is_sensitive=False,
            source=setting.source,
            synonyms=[Synonym(setting.name, value, source) for value, source in setting.synonyms],
        )

    def partition(self, topic: str, number: int) -> Partition:
        path = f"/topics/{topic}/partitions/{number}"
        return Partition(
            "KafkaPartition",
            self.metadata(path, f"/topic={topic}/partition={number}"),
            self.cluster_id,
            topic,
            number,
            self.related(f"{path}/replicas/{self.broker_id}"),
            self.related(f"{path}/replicas"),
            self.related(f"{path}/reassignment"),
        )

    def offsets(self, topic: str, number: int, earliest: int, latest: int) -> PartitionOffsets:
        path, name = f"/topics/{topic}/partitions/{number}/offset", f"/topic={topic}/partition={number}/offset"
        metadata = self.metadata(path, name)
        kind = "KafkaPartitionWithOffsets"
        return PartitionOffsets(kind, metadata, self.cluster_id, topic, number, earliest, latest)

    def replica(self, topic: str, number: int) -> Replica:
        path = f"/topics/{topic}/partitions/{number}/replicas/{self.broker_id}"
        return Replica(
            "KafkaReplica",
            self.metadata(path, f"/topic={topic}/partition={number}/replica={self.broker_id}"),
            self.cluster_id,
            topic,
            number,
            self.broker_id,
            is_leader=True,
            is_in_sync=True,
            broker=self.related(f"/brokers/{self.broker_id}"),
        )

    def metadata(self, path: str, name: str) -> Metadata:
        return Metadata(self.link(path), f"crn:///kafka={self.cluster_id}{name}")

    def link(self, path: str) -> str:
        return f"{self._clusters}/{self.cluster_id}{path}"

    def related(self, path: str) -> Related:
        return Related(self.link(path))
