"""v2's view of topics and their partitions, and routes that create and delete them by one line of curl.

Knows Karapace's shapes and codes. Must not know how a topic is stored, or which settings it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from delta_log import Log
from delta_log.model.errors import TopicExists, UnknownTopic
from delta_log.records.validation import LATEST_TIMESTAMP
from delta_log.topics.catalog import TopicInfo
from ingest_api.routes.topics.shapes import (
    Brokers,
    DeleteRecordsRequest,
    DeleteRecordsView,
    OffsetsView,
    PartitionView,
    ReplicaView,
    TopicRequest,
    TopicView,
    answers,
    takes,
)
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import UNKNOWN_PARTITION, Refusal
from ingest_api.web.json_bodies import read_json, read_json_or
from ingest_api.web.negotiation import plain_media_type
from ingest_api.web.parameters import Parameter, Whole
from ingest_api.web.request import Call, Header, Reply, json_reply
from ingest_api.web.route_spec import PATH_KINDS, Operation, ResponseSpec

#: v2's own code for an unknown topic, if the topic itself was asked for.
UNKNOWN_RESOURCE: Final = 40403
#: Source of a setting that was set on the topic itself.
OWN: Final = "DYNAMIC_TOPIC_CONFIG"
#: Id that tells topics of the same name apart. Not in Karapace's shape, so it is not in the body.
TOPIC_ID: Final = b"lakelog-topic-id"
_NAMED: Final = {"Lakelog-Topic-Id": "The topic's own id: one that is deleted and made again has another."}
_CREATION_ATTEMPTS: Final = 3


def operations(tier: ServerContext) -> list[Operation]:
    """List the routes of this module."""
    of = _Topics(tier)
    return [*of.topic_operations(), *of.partition_operations()]


AT: Final = Parameter(
    "timestamp", Whole(0, LATEST_TIMESTAMP), "Answer also the earliest offset at or after this time, in milliseconds."
)


class _Topics:
    """Handlers: each public method is a route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier

    async def list(self, call: Call) -> Reply:
        media = _prepare(call)
        return json_reply(await self._tier.in_thread(self._tier.log.topics), content_type=media)

    async def describe(self, call: Call) -> Reply:
        media = _prepare(call)
        try:
            info = await self._tier.in_thread(self._tier.log.describe_topic, call.path["topic"])
        except UnknownTopic as error:
            raise Refusal(404, str(error), code=UNKNOWN_RESOURCE) from None
        configs = {setting.name: setting.value for setting in info.config.describe()}
        return json_reply(self._topic(info, configs), content_type=media, headers=_names(info))

    async def put(self, call: Call) -> Reply:
        media = _prepare(call)
        wanted = await read_json_or(call, TopicRequest, TopicRequest())
        created, info = await self._tier.change_topics(ensure_topic, self._tier, call.path["topic"], wanted)
        own = {setting.name: setting.value for setting in info.config.describe() if setting.source == OWN}
        return json_reply(self._topic(info, own), 201 if created else 200, content_type=media, headers=_names(info))

    async def delete(self, call: Call) -> Reply:
        _prepare(call)
        try:
            await self._tier.change_topics(self._tier.log.delete_topic, call.path["topic"])
        except UnknownTopic as error:
            raise Refusal(404, str(error), code=UNKNOWN_RESOURCE) from None
        return Reply(204)

    async def partitions(self, call: Call) -> Reply:
        media = _prepare(call)
        info = await self._tier.in_thread(self._tier.log.describe_topic, call.path["topic"])
        return json_reply([self._partition(number) for number in range(info.partitions)], content_type=media)

    async def partition(self, call: Call) -> Reply:
        media = _prepare(call)
        _, number = await self._tier.in_thread(find_partition, self._tier.log, call.path)
        return json_reply(self._partition(number), content_type=media)

    async def offsets(self, call: Call) -> Reply:
        media = plain_media_type(call.list_header(b"accept"))
        timestamp = call.query((AT,))["timestamp"]
        view = await self._tier.in_thread(_offsets, self._tier.log, call.path, timestamp)
        return json_reply(view, content_type=media)

    async def delete_records(self, call: Call) -> Reply:
        media = _prepare(call)
        before = (await read_json(call, DeleteRecordsRequest)).before_offset
        start = await self._tier.in_thread(_delete_records, self._tier.log, call.path, before)
        return json_reply(DeleteRecordsView(start), content_type=media)

    async def brokers(self, call: Call) -> Reply:
        media = _prepare(call)
        return json_reply(Brokers([self._tier.settings.broker_id]), content_type=media)

    def _topic(self, info: TopicInfo, configs: dict[str, str]) -> TopicView:
        return TopicView(info.name, configs, [self._partition(number) for number in range(info.partitions)])

    def _partition(self, number: int) -> PartitionView:
        broker = self._tier.settings.broker_id
        return PartitionView(number, broker, [ReplicaView(broker)])

    def topic_operations(self) -> list[Operation]:
        topic = "/topics/{topic}"
        described = answers(TopicView, "The topic as it is; `configs` are all in force.", headers=_NAMED)
        return [
            Operation(
                "GET", "/topics", "list_topics", "List the topics", self.list, "topics",
                (answers(list[str], "The names of the topics."),), reads=True,
            ),
            Operation(
                "GET", topic, "describe_topic", "Describe a topic", self.describe, "topics", (described,),
                error_statuses=(404,), reads=True,
            ),
            Operation(
                "PUT", topic, "put_topic", "Make sure that a topic is there", self.put, "topics",
                (
                    answers(TopicView, "It was created; `configs` are those set on the topic itself.", 201, _NAMED),
                    answers(TopicView, "It was there already, as it is wanted; `configs` as for 201.", headers=_NAMED),
                ),
                body=takes(TopicRequest, required=False),
                error_statuses=(409,),
            ),
            Operation(
                "DELETE", topic, "delete_topic", "Delete a topic", self.delete, "topics",
                (ResponseSpec(204, "The topic and all of its records are gone."),), error_statuses=(404,),
            ),
            Operation(
                "GET", "/brokers", "list_brokers", "List the brokers", self.brokers, "topics",
                (answers(Brokers, "The only one."),), reads=True,
            ),
        ]  # fmt: skip

    def partition_operations(self) -> list[Operation]:
        topic, partition = "/topics/{topic}", "/topics/{topic}/partitions/{partition}"
        return [
            Operation(
                "GET", f"{topic}/partitions", "list_partitions", "List the partitions of a topic", self.partitions,
                "topics", (answers(list[PartitionView], "The partitions in their order."),), error_statuses=(404,),
                reads=True,
            ),
            Operation(
                "GET", partition, "describe_partition", "Describe a partition", self.partition, "topics",
                (answers(PartitionView, "The partition."),), error_statuses=(404,), reads=True,
            ),
            Operation(
                "GET", f"{partition}/offsets", "get_offsets", "Where a partition begins and ends", self.offsets,
                "topics", (answers(OffsetsView, "Its range, and the offset at a time."),),
                (AT,), error_statuses=(404,), reads=True,
            ),
            Operation(
                "POST", f"{partition}/records:delete", "delete_records", "Move the log start of a partition",
                self.delete_records, "topics", (answers(DeleteRecordsView, "Where the partition begins now."),),
                body=takes(DeleteRecordsRequest), error_statuses=(404, 416),
            ),
        ]  # fmt: skip


def ensure_topic(tier: ServerContext, topic: str, wanted: TopicRequest) -> tuple[bool, TopicInfo]:
    """Create the topic, or check that the existing one is as wanted; it may be created or deleted meanwhile."""
    log, configs = tier.log, wanted.configs or {}
    partitions = tier.settings.default_partitions if wanted.partitions is None else wanted.partitions
    for _ in range(_CREATION_ATTEMPTS - 1):
        try:
            return True, log.create_topic(topic, partitions, configs)
        except TopicExists as error:
            if error.existing != topic:
                raise
        try:
            info = log.describe_topic(topic)
        except UnknownTopic:
            continue
        check_same(info, wanted)
        return False, info
    return True, log.create_topic(topic, partitions, configs)


def check_same(info: TopicInfo, wanted: TopicRequest) -> None:
    """Refuse if the existing topic differs from the wanted one; what is left out is not compared."""
    differing: list[str] = []
    if wanted.partitions is not None and wanted.partitions != info.partitions:
        differing.append(f"it has {info.partitions} partition{'s' * (info.partitions != 1)}, not {wanted.partitions}")
    meant = info.config.alter(wanted.configs or {}).in_force
    present = info.config.in_force
    differing += [f"{name} is {present[name]}, not {meant[name]}" for name in meant if meant[name] != present[name]]
    if differing:
        raise Refusal(409, f"topic {info.name!r} exists already, but {'; '.join(differing)}", outcome="not_attempted")


def find_partition(log: Log, path: Mapping[str, str]) -> tuple[TopicInfo, int]:
    """Find the topic and partition of a path; a partition that is no number is unknown."""
    info = log.describe_topic(path["topic"])
    number = cast("int | None", PATH_KINDS["partition"][0].parse(path["partition"]))
    if number is None or number >= info.partitions:
        shown = path["partition"][:40]
        raise Refusal(
            404, f"{info.name} has no partition {shown}: it has 0 to {info.partitions - 1}", code=UNKNOWN_PARTITION
        )
    return info, number


def _offsets(log: Log, path: Mapping[str, str], timestamp: int | None) -> OffsetsView:
    info, partition = find_partition(log, path)
    known = log.offsets(info.name, partition)
    if timestamp is None:
        return OffsetsView(known.log_start_offset, known.end_offset)
    offset = log.offset_at(info.name, partition, timestamp)
    return OffsetsView(known.log_start_offset, known.end_offset, offset)


def _delete_records(log: Log, path: Mapping[str, str], before_offset: int) -> int:
    info, partition = find_partition(log, path)
    log.delete_records(info.name, partition, before_offset)
    return log.offsets(info.name, partition).log_start_offset


def _names(info: TopicInfo) -> list[Header]:
    return [(TOPIC_ID, info.id.encode())]


def _prepare(call: Call) -> bytes:
    """First step of every route here: checks the request; returns the content type of the answer."""
    call.query(())
    return plain_media_type(call.list_header(b"accept"))
