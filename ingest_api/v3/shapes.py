"""What v3 answers with: Confluent's resources, each with links to itself and to what belongs to it. Pure.

A link leads on, but where Confluent's schema requires the member and there is no such resource here: access control,
settings and replicas of brokers, groups, reassignments. Clients made from that schema refuse an answer without it.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from delta_log.catalog import TopicInfo
from delta_log.topic_config import Described

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
    """Makes resources of one cluster with one broker, as seen under one address."""

    def __init__(self, base: str, cluster: str, broker: int) -> None:
        self._clusters = f"{base}/v3/clusters"
        self._cluster = cluster
        self._broker = broker

    def listed(self, kind: str, path: str, data: list[T]) -> Listed[T]:
        return Listed(f"{kind}List", ListMetadata(self._link(path)), data)

    def clusters(self) -> Listed[Cluster]:
        return Listed("KafkaClusterList", ListMetadata(self._clusters), [self.cluster()])

    def cluster(self) -> Cluster:
        return Cluster(
            "KafkaCluster",
            self._metadata("", ""),
            self._cluster,
            self._related(f"/brokers/{self._broker}"),
            self._related("/acls"),
            self._related("/brokers"),
            self._related("/broker-configs"),
            self._related("/consumer-groups"),
            self._related("/topics"),
            self._related("/topics/-/partitions/-/reassignment"),
        )

    def broker(self, host: str, port: int) -> Broker:
        path = f"/brokers/{self._broker}"
        return Broker(
            "KafkaBroker",
            self._metadata(path, f"/broker={self._broker}"),
            self._cluster,
            self._broker,
            host,
            port,
            self._related(f"{path}/configs"),
            self._related(f"{path}/partition-replicas"),
        )

    def topic(self, name: str, partitions: int) -> Topic:
        path = f"/topics/{name}"
        return Topic(
            "KafkaTopic",
            self._metadata(path, f"/topic={name}"),
            self._cluster,
            name,
            name.startswith("__"),
            1,
            partitions,
            self._related(f"{path}/partitions"),
            self._related(f"{path}/configs"),
            self._related(f"{path}/partitions/-/reassignment"),
        )

    def config(self, topic: TopicInfo, setting: Described) -> Config:
        return Config(
            "KafkaTopicConfig",
            self._metadata(
                f"/topics/{topic.name}/configs/{setting.name}", f"/topic={topic.name}/config={setting.name}"
            ),
            self._cluster,
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
            self._metadata(path, f"/topic={topic}/partition={number}"),
            self._cluster,
            topic,
            number,
            self._related(f"{path}/replicas/{self._broker}"),
            self._related(f"{path}/replicas"),
            self._related(f"{path}/reassignment"),
        )

    def offsets(self, topic: str, number: int, earliest: int, latest: int) -> PartitionOffsets:
        path, name = f"/topics/{topic}/partitions/{number}/offset", f"/topic={topic}/partition={number}/offset"
        metadata = self._metadata(path, name)
        kind = "KafkaPartitionWithOffsets"
        return PartitionOffsets(kind, metadata, self._cluster, topic, number, earliest, latest)

    def replica(self, topic: str, number: int) -> Replica:
        path = f"/topics/{topic}/partitions/{number}/replicas/{self._broker}"
        return Replica(
            "KafkaReplica",
            self._metadata(path, f"/topic={topic}/partition={number}/replica={self._broker}"),
            self._cluster,
            topic,
            number,
            self._broker,
            is_leader=True,
            is_in_sync=True,
            broker=self._related(f"/brokers/{self._broker}"),
        )

    def _metadata(self, path: str, name: str) -> Metadata:
        return Metadata(self._link(path), f"crn:///kafka={self._cluster}{name}")

    def _link(self, path: str) -> str:
        return f"{self._clusters}/{self._cluster}{path}"

    def _related(self, path: str) -> Related:
        return Related(self._link(path))
