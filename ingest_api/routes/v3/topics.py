"""Topics: list, create, describe, add partitions, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final

import msgspec

from delta_log import Log
from delta_log.model.errors import NotAvailable, TopicExists, UnknownTopic
from delta_log.model.names import check_topic_name, collision_key
from delta_log.model.topic_config import TopicConfig
from ingest_api.routes.v3.context import CLUSTER, answers, bad_request, reading, route, takes
from ingest_api.routes.v3.shapes import Listed, Topic, View
from ingest_api.web.context import ServerContext
from ingest_api.web.json_bodies import V3_TYPES, read_json
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Operation, ResponseSpec

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
ConfigValue = str | int | float | None
#: Number of partitions shown for a closed topic, as it is unknown.
_UNKNOWN: Final = 0


class ConfigEntry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    value: ConfigValue = None


class Assignment(msgspec.Struct, forbid_unknown_fields=True):
    """Which brokers have a partition: the only one."""

    partition_id: Int32
    broker_ids: list[Int32]


class CreateTopic(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A topic that is wanted. `validate_only` has it checked, and made by nobody."""

    topic_name: str
    partitions_count: Int32 | None = None
    replication_factor: Int32 | None = None
    replicas_assignments: list[Assignment] | None = None
    configs: list[ConfigEntry] | None = None
    validate_only: bool | None = None


class AddPartitions(msgspec.Struct, forbid_unknown_fields=True):
    """How many partitions there shall be from now on: more than before."""

    partitions_count: Int32


class _Topics:
    """Handlers: each public method is a route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier

    async def list(self, _: Call, view: View) -> Reply:
        counts = await self._tier.in_thread(_partition_counts, self._tier.log)
        return json_reply(view.listed("KafkaTopic", "/topics", [view.topic(*each) for each in sorted(counts.items())]))

    async def create(self, call: Call, view: View) -> Reply:
        wanted = await read_json(call, CreateTopic, types=V3_TYPES)
        settings = self._tier.settings
        partitions = plan_partitions(wanted, settings.broker_id, settings.default_partitions)
        configs = one_each(wanted.configs or ())
        topic = view.topic(wanted.topic_name, partitions)
        if wanted.validate_only:
            await self._tier.in_thread(_check_new, self._tier.log, wanted.topic_name, partitions, configs)
            return json_reply(topic)
        await self._tier.change_topics(self._tier.log.create_topic, wanted.topic_name, partitions, configs)
        return json_reply(topic, 201, headers=[(b"location", topic.metadata.self_.encode())])

    async def describe(self, call: Call, view: View) -> Reply:
        info = await self._tier.in_thread(self._tier.log.describe_topic, call.path["topic"])
        return json_reply(view.topic(info.name, info.partitions))

    async def add_partitions(self, call: Call, view: View) -> Reply:
        wanted = (await read_json(call, AddPartitions, types=V3_TYPES)).partitions_count
        await self._tier.change_topics(self._tier.log.add_partitions, call.path["topic"], wanted)
        return json_reply(view.topic(call.path["topic"], wanted))

    async def delete(self, call: Call, _: View) -> Reply:
        await self._tier.change_topics(self._tier.log.delete_topic, call.path["topic"])
        return Reply(204)


def operations(tier: ServerContext) -> list[Operation]:
    """List the routes of this module."""
    of = _Topics(tier)
    every = f"{CLUSTER}/topics"
    one = every + "/{topic}"
    return [
        reading(
            tier, every, "list_topics", "List the topics", of.list,
            answers(Listed[Topic], "The topics by name; one that is closed has 0 partitions."),
        ),
        route(
            tier, "POST", every, "create_topic", "Create a topic", of.create,
            (
                answers(Topic, "It was created.", 201, Location="The address of the topic."),
                answers(Topic, "With `validate_only`: it could be created."),
            ),
            takes(CreateTopic),
        ),
        reading(
            tier, one, "describe_topic", "Describe a topic", of.describe, answers(Topic, "The topic."),
        ),
        route(
            tier, "PATCH", one, "add_partitions", "Add partitions to a topic", of.add_partitions,
            answers(Topic, "The topic as it is now."), takes(AddPartitions),
        ),
        route(
            tier, "DELETE", one, "delete_topic", "Delete a topic", of.delete,
            ResponseSpec(204, "The topic and all of its records are gone."),
        ),
    ]  # fmt: skip


def plan_partitions(wanted: CreateTopic, broker: int, default: int) -> int:
    """Return the number of partitions of a new topic; refuses a request that one broker cannot fulfil."""
    if wanted.replication_factor not in (None, 1):
        raise bad_request(f"replication_factor must be 1, not {wanted.replication_factor}: there is one broker")
    assigned = wanted.replicas_assignments
    if assigned is None:
        return default if wanted.partitions_count is None else wanted.partitions_count
    if wanted.partitions_count is not None or wanted.replication_factor is not None:
        raise bad_request("replicas_assignments goes without partitions_count and replication_factor")
    if sorted(each.partition_id for each in assigned) != list(range(len(assigned))) or not assigned:
        raise bad_request("replicas_assignments must name the partitions from 0 on, each once")
    if any(each.broker_ids != [broker] for each in assigned):
        raise bad_request(f"each of broker_ids must be [{broker}]: there is one broker")
    return len(assigned)


def one_each(entries: Sequence[ConfigEntry]) -> dict[str, ConfigValue]:
    """Convert a list of settings; refuses one that is named twice."""
    configs = {entry.name: entry.value for entry in entries}
    if len(configs) < len(entries):
        raise bad_request("a setting is named twice")
    return configs


def _partition_counts(log: Log) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in log.topics():
        try:
            counts[name] = log.describe_topic(name).partitions
        except UnknownTopic:
            continue
        except NotAvailable:
            counts[name] = _UNKNOWN
    return counts


def _check_new(log: Log, name: str, partitions: int, configs: Mapping[str, ConfigValue]) -> None:
    """Check all rules of a new topic, without creating it."""
    check_topic_name(name)
    log.check_partitions(name, partitions)
    TopicConfig.of({setting: value for setting, value in configs.items() if value is not None})
    same = [there for there in log.topics() if collision_key(there) == collision_key(name)]
    if same:
        raise TopicExists(name, same[0])
