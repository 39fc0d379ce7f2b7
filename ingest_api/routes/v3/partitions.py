"""Partitions, their offsets, and their replicas: each has one, the leader."""

from __future__ import annotations

from ingest_api.routes.topics.topics import find_partition
from ingest_api.routes.v3.clusters import check_broker
from ingest_api.routes.v3.context import CLUSTER, answers, reading
from ingest_api.routes.v3.shapes import Listed, Partition, PartitionOffsets, Replica, View
from ingest_api.web.context import ServerContext
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Operation


class _Partitions:
    """Handlers: each public method is a route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier

    async def list(self, call: Call, view: View) -> Reply:
        info = await self._tier.in_thread(self._tier.log.describe_topic, call.path["topic"])
        data = [view.partition(info.name, number) for number in range(info.partitions)]
        return json_reply(view.listed("KafkaPartition", f"/topics/{info.name}/partitions", data))

    async def describe(self, call: Call, view: View) -> Reply:
        return json_reply(view.partition(*await self._find(call)))

    async def offsets(self, call: Call, view: View) -> Reply:
        topic, number = await self._find(call)
        known = await self._tier.in_thread(self._tier.log.offsets, topic, number)
        return json_reply(view.offsets(topic, number, known.log_start_offset, known.end_offset))

    async def list_replicas(self, call: Call, view: View) -> Reply:
        topic, number = await self._find(call)
        path = f"/topics/{topic}/partitions/{number}/replicas"
        return json_reply(view.listed("KafkaReplica", path, [view.replica(topic, number)]))

    async def describe_replica(self, call: Call, view: View) -> Reply:
        topic, number = await self._find(call)
        check_broker(self._tier, call)
        return json_reply(view.replica(topic, number))

    async def _find(self, call: Call) -> tuple[str, int]:
        info, number = await self._tier.in_thread(find_partition, self._tier.log, call.path)
        return info.name, number


def operations(tier: ServerContext) -> list[Operation]:
    """List the routes of this module."""
    of = _Partitions(tier)
    every = CLUSTER + "/topics/{topic}/partitions"
    one = every + "/{partition}"
    return [
        reading(
            tier, every, "list_partitions", "List the partitions of a topic", of.list,
            answers(Listed[Partition], "The partitions in their order."),
        ),
        reading(
            tier, one, "describe_partition", "Describe a partition", of.describe,
            answers(Partition, "The partition."),
        ),
        reading(
            tier, f"{one}/offset", "get_offsets", "Where a partition begins and ends", of.offsets,
            answers(PartitionOffsets, "Its range."),
        ),
        reading(
            tier, f"{one}/replicas", "list_replicas", "List the replicas of a partition", of.list_replicas,
            answers(Listed[Replica], "The only one."),
        ),
        reading(
            tier, one + "/replicas/{broker}", "describe_replica", "Describe a replica", of.describe_replica,
            answers(Replica, "The replica."),
        ),
    ]  # fmt: skip
