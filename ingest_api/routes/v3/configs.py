"""The settings of a topic, one by one or several at once: a change is applied whole or not at all."""

from __future__ import annotations

from typing import Literal

import msgspec

from delta_log.model.quoting import quoted
from delta_log.model.topic_config import Described
from delta_log.model.topic_settings import nearest_setting
from delta_log.topics.catalog import TopicInfo
from ingest_api.routes.v3.context import CLUSTER, answers, bad_request, reading, route, takes
from ingest_api.routes.v3.shapes import Config, Listed, View
from ingest_api.routes.v3.topics import ConfigEntry, ConfigValue, one_each
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal
from ingest_api.web.json_bodies import V3_TYPES, read_json
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Operation, ResponseSpec


class NewValue(msgspec.Struct, forbid_unknown_fields=True):
    """A number may be written as text. null is no value: DELETE takes a setting back to its default."""

    value: str | int | float


class Change(ConfigEntry):
    """`SET`, which needs a value, or `DELETE`, back to the default."""

    operation: Literal["SET", "DELETE"] | None = None


class Changes(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """`validate_only` has them checked, and made by nobody."""

    data: list[Change]
    validate_only: bool | None = None


class _Configs:
    """Handlers: each public method is a route."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier

    async def list(self, call: Call, view: View) -> Reply:
        info = await self._describe(call)
        data = [view.config(info, setting) for setting in info.config.describe()]
        return json_reply(view.listed("KafkaTopicConfig", f"/topics/{info.name}/configs", data))

    async def describe(self, call: Call, view: View) -> Reply:
        info = await self._describe(call)
        return json_reply(view.config(info, find_config(info, call.path["config"])))

    async def put(self, call: Call, _: View) -> Reply:
        value = (await read_json(call, NewValue, types=V3_TYPES)).value
        await self._alter(call, {call.path["config"]: value})
        return Reply(204)

    async def reset(self, call: Call, _: View) -> Reply:
        await self._alter(call, {call.path["config"]: None})
        return Reply(204)

    async def alter(self, call: Call, _: View) -> Reply:
        changes = await read_json(call, Changes, types=V3_TYPES)
        await self._alter(call, plan_changes(changes), dry=bool(changes.validate_only))
        return Reply(204)

    async def _describe(self, call: Call) -> TopicInfo:
        return await self._tier.in_thread(self._tier.log.describe_topic, call.path["topic"])

    async def _alter(self, call: Call, changes: dict[str, ConfigValue], *, dry: bool = False) -> None:
        info = await self._describe(call)
        for name in changes:
            find_config(info, name)
        if dry:
            info.config.alter(changes)
        elif changes:
            await self._tier.in_thread(self._tier.log.alter_topic, info.name, changes)


def operations(tier: ServerContext) -> list[Operation]:
    """List the routes of this module."""
    of = _Configs(tier)
    every = CLUSTER + "/topics/{topic}/configs"
    one = every + "/{config}"
    changed = ResponseSpec(204, "It is in force.")
    return [
        reading(
            tier, every, "list_configs", "List the settings of a topic", of.list,
            answers(Listed[Config], "Every setting, with where its value comes from."),
        ),
        route(
            tier, "POST", f"{every}:alter", "alter_configs", "Change settings of a topic", of.alter,
            ResponseSpec(204, "All of it is in force."), takes(Changes),
        ),
        reading(
            tier, one, "describe_config", "Describe a setting of a topic", of.describe,
            answers(Config, "The setting."),
        ),
        route(tier, "PUT", one, "put_config", "Change a setting of a topic", of.put, changed, takes(NewValue)),
        route(
            tier, "DELETE", one, "reset_config", "Take a setting of a topic back to its default", of.reset, changed,
        ),
    ]  # fmt: skip


def find_config(info: TopicInfo, name: str) -> Described:
    found = next((setting for setting in info.config.describe() if setting.name == name), None)
    if found is None:
        raise Refusal(404, f"topic {info.name} has no setting {quoted(name)}{nearest_setting(name[:100])}")
    return found


def plan_changes(changes: Changes) -> dict[str, ConfigValue]:
    """Return the new values of settings; refuses a contradictory change."""
    for change in changes.data:
        if change.operation == "DELETE" and change.value is not None:
            raise bad_request(f"{change.name[:100]}: DELETE goes without a value")
        if change.operation != "DELETE" and change.value is None:
            raise bad_request(f"{change.name[:100]}: SET needs a value")
    return one_each(changes.data)
