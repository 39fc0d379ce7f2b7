"""Answers of v3 about consumer groups: Confluent's resources, as `shapes` has the others. Pure.

A partition has a lag if an offset is committed; without an owner, its lag has an empty consumer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from consumer_groups.decisions.admin import GroupSummary, State
from consumer_groups.decisions.lag import PartitionProgress
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.records import MemberRecord
from ingest_api.routes.v3.shapes import Listed, Metadata, Related, View
from ingest_api.web.path_parameters import segment

GroupState = Literal["COMPLETING_REBALANCE", "DEAD", "EMPTY", "STABLE"]
#: While partitions move, the target assignment is decided already.
STATES: Final[Mapping[State, GroupState]] = {
    "Dead": "DEAD",
    "Empty": "EMPTY",
    "Reconciling": "COMPLETING_REBALANCE",
    "Stable": "STABLE",
}


class ConsumerGroup(msgspec.Struct):
    """`is_simple`: nobody ever subscribed. `partition_assignor` is empty where nobody does."""

    kind: str
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    is_simple: bool
    partition_assignor: str
    state: GroupState
    coordinator: Related
    consumers: Related
    lag_summary: Related


class Consumer(msgspec.Struct):
    """`instance_id` is that of a static member."""

    kind: str
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    instance_id: str | None
    client_id: str
    assignments: Related


class ConsumerAssignment(msgspec.Struct):
    kind: str
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    consumer_id: str
    topic_name: str
    partition_id: int
    partition: Related
    lag: Related


class ConsumerLag(msgspec.Struct):
    kind: str
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    topic_name: str
    partition_id: int
    current_offset: int
    log_end_offset: int
    lag: int
    consumer_id: str
    instance_id: str | None
    client_id: str


class ConsumerGroupLagSummary(msgspec.Struct):
    kind: str
    metadata: Metadata
    cluster_id: str
    consumer_group_id: str
    max_lag_consumer_id: str
    max_lag_instance_id: str | None
    max_lag_client_id: str
    max_lag_topic_name: str
    max_lag_partition_id: int
    max_lag: int
    total_lag: int
    max_lag_consumer: Related
    max_lag_partition: Related


class GroupResources:
    """Makes the resources of one group."""

    def __init__(self, view: View, group: str) -> None:
        self._view = view
        self._group = group
        self._path = f"/consumer-groups/{segment(group)}"
        self._name = f"/consumer-group={segment(group)}"

    def group(self, given: GroupSummary) -> ConsumerGroup:
        return ConsumerGroup(
            "KafkaConsumerGroup",
            self._metadata("", ""),
            self._view.cluster_id,
            self._group,
            given.generation == 0,
            given.assignor or "",
            STATES[given.state],
            self._view.related(f"/brokers/{self._view.broker_id}"),
            self._related("/consumers"),
            self._related("/lag-summary"),
        )

    def consumers(self, members: Sequence[MemberRecord]) -> Listed[Consumer]:
        return self._view.listed("KafkaConsumer", f"{self._path}/consumers", [self.consumer(each) for each in members])

    def consumer(self, member: MemberRecord) -> Consumer:
        path = f"/consumers/{segment(member.member_id)}"
        return Consumer(
            "KafkaConsumer",
            self._metadata(path, f"/consumer={segment(member.member_id)}"),
            self._view.cluster_id,
            self._group,
            member.member_id,
            member.options.group_instance_id,
            member.client_id,
            self._related(f"{path}/assignments"),
        )

    def assignments(self, member_id: str, partitions: Sequence[TopicPartition]) -> Listed[ConsumerAssignment]:
        path = f"{self._path}/consumers/{segment(member_id)}/assignments"
        return self._view.listed(
            "KafkaConsumerAssignment", path, [self.assignment(member_id, each) for each in partitions]
        )

    def assignment(self, member_id: str, partition: TopicPartition) -> ConsumerAssignment:
        topic, number = partition
        consumer, at = segment(member_id), f"{topic}/partitions/{number}"
        return ConsumerAssignment(
            "KafkaConsumerAssignment",
            self._metadata(
                f"/consumers/{consumer}/assignments/{at}", f"/consumer={consumer}/assignment={topic}/partition={number}"
            ),
            self._view.cluster_id,
            self._group,
            member_id,
            topic,
            number,
            self._view.related(f"/topics/{at}"),
            self._related(f"/lags/{at}"),
        )

    def lags(self, given: Sequence[PartitionProgress], members: Mapping[str, MemberRecord]) -> Listed[ConsumerLag]:
        """List the lags, the largest first."""
        lags = [lag for each in given if (lag := self.lag(each, members)) is not None]
        return self._view.listed("KafkaConsumerLag", f"{self._path}/lags", sorted(lags, key=lambda each: -each.lag))

    def lag(self, given: PartitionProgress, members: Mapping[str, MemberRecord]) -> ConsumerLag | None:
        """Make the lag of a partition; None if no offset is committed, or those of the log are unknown."""
        if given.committed is None or given.offsets is None:
            return None
        topic, number = given.partition
        member = members.get(given.owner or "")
        return ConsumerLag(
            "KafkaConsumerLag",
            self._metadata(f"/lags/{topic}/partitions/{number}", f"/lag={topic}/partition={number}"),
            self._view.cluster_id,
            self._group,
            topic,
            number,
            given.committed.next_offset,
            given.offsets.end_offset,
            given.lag or 0,
            "" if member is None else member.member_id,
            None if member is None else member.options.group_instance_id,
            "" if member is None else member.client_id,
        )

    def lag_summary(self, lags: Sequence[ConsumerLag]) -> ConsumerGroupLagSummary:
        """Sum up one or more lags, given with the largest first."""
        most = lags[0]
        return ConsumerGroupLagSummary(
            "KafkaConsumerGroupLagSummary",
            self._metadata("/lag-summary", "/lag-summary"),
            self._view.cluster_id,
            self._group,
            most.consumer_id,
            most.instance_id,
            most.client_id,
            most.topic_name,
            most.partition_id,
            most.lag,
            sum(each.lag for each in lags),
            self._related(f"/consumers/{segment(most.consumer_id)}"),
            self._view.related(f"/topics/{most.topic_name}/partitions/{most.partition_id}"),
        )

    def _metadata(self, path: str, name: str) -> Metadata:
        return self._view.metadata(self._path + path, self._name + name)

    def _related(self, path: str) -> Related:
        return self._view.related(self._path + path)
