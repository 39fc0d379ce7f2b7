"""Requests of an admin about topics. Pure: generators, driven by threads or by tasks.

A request without an answer is retried where that does no harm. If the answer to a retry may be due to the first attempt
(the topic exists already, or is gone already), it counts as success.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakelog.foundation.errors import InvalidConfig, TopicExists
from lakelog.foundation.names import check_topic
from lakelog.topics.shapes import (
    Batch,
    Batches,
    Clusters,
    ConfigEntry,
    Configs,
    LogStart,
    PartitionOffsets,
    PutTopic,
    TopicDescription,
)
from lakelog.transport.json_requests import JsonQuestions, read_answer
from lakelog.transport.retry import Asking, Patience, Rejected, Succeeded

ConfigValue = str | int | float | None

_CREATED = 201
_ABSENT = 404
_CONFLICT = 409
_UNUSABLE = 422
_BATCHES = 10_000


class TopicQuestions(JsonQuestions):
    """Requests about topics. Caches the cluster id, which is part of the v3 routes."""

    def __init__(self, patience: Patience) -> None:
        super().__init__(patience)
        self._cluster: str | None = None

    def list_topics(self) -> Asking[list[str]]:
        what = "listing the topics"
        return read_answer(what, (yield from self.ask(what, "GET", "/topics")), list[str])

    def describe_topic(self, topic: str) -> Asking[TopicDescription]:
        check_topic(topic)
        what = f"describing {topic}"
        return _topic(what, (yield from self.ask(what, "GET", f"/topics/{topic}")))

    def create_topic(
        self, topic: str, partitions: int | None, configs: Mapping[str, ConfigValue] | None, *, exist_ok: bool
    ) -> Asking[TopicDescription]:
        check_topic(topic)
        what = f"creating {topic}"
        wanted: dict[str, Any] = {} if partitions is None else {"partitions": partitions}
        wanted |= {"configs": {name: _said(value) for name, value in configs.items()}} if configs else {}
        try:
            heeded = yield from self.attempt(what, "PUT", f"/topics/{topic}", wanted)
        except Rejected as declined:
            error = declined.fault.error
            if error.said is not None and error.said.status == _CONFLICT:
                raise TopicExists(str(error), said=error.said) from None
            if error.said is not None and error.said.status == _UNUSABLE:
                raise InvalidConfig(str(error), said=error.said) from None
            raise error from None
        if heeded.answer.status != _CREATED and not exist_ok and not heeded.doubted:
            raise TopicExists(f"topic {topic!r} exists already")
        return _topic(what, heeded)

    def delete_topic(self, topic: str) -> Asking[None]:
        check_topic(topic)
        try:
            yield from self.attempt(f"deleting {topic}", "DELETE", f"/topics/{topic}")
        except Rejected as declined:
            said = declined.fault.error.said
            if not (declined.doubted and said is not None and said.status == _ABSENT):
                raise declined.fault.error from None

    def add_partitions(self, topic: str, partitions: int) -> Asking[None]:
        check_topic(topic)
        path = yield from self._v3(f"/topics/{topic}")
        try:
            yield from self.attempt(f"adding partitions to {topic}", "PATCH", path, {"partitions_count": partitions})
        except Rejected as declined:
            if declined.doubted and (yield from self.describe_topic(topic)).partitions == partitions:
                return
            raise declined.fault.error from None

    def describe_configs(self, topic: str) -> Asking[dict[str, ConfigEntry]]:
        check_topic(topic)
        what = f"describing the settings of {topic}"
        path = yield from self._v3(f"/topics/{topic}/configs")
        configs = read_answer(what, (yield from self.ask(what, "GET", path)), Configs)
        return {config.name: config for config in configs.data}

    def alter_configs(self, topic: str, configs: Mapping[str, ConfigValue]) -> Asking[None]:
        check_topic(topic)
        path = yield from self._v3(f"/topics/{topic}/configs:alter")
        changes = [
            {"name": name, "operation": "DELETE"} if value is None else {"name": name, "value": _said(value)}
            for name, value in configs.items()
        ]
        yield from self.ask(f"changing the settings of {topic}", "POST", path, {"data": changes})

    def offsets(self, topic: str, partition: int, timestamp: int | None) -> Asking[PartitionOffsets]:
        check_topic(topic)
        what = f"asking for the offsets of {topic}-{partition:d}"
        query = "" if timestamp is None else f"?timestamp={timestamp:d}"
        path = f"/topics/{topic}/partitions/{partition:d}/offsets{query}"
        return read_answer(what, (yield from self.ask(what, "GET", path)), PartitionOffsets)

    def batches(self, topic: str, partition: int, offset: int) -> Asking[list[Batch]]:
        """List batches, in pages of `_BATCHES`."""
        check_topic(topic)
        what = f"listing the batches of {topic}-{partition:d}"
        found: list[Batch] = []
        while True:
            path = f"/topics/{topic}/partitions/{partition:d}/batches?offset={offset:d}&max_batches={_BATCHES}"
            page = read_answer(what, (yield from self.ask(what, "GET", path)), Batches).batches
            found += page
            if len(page) < _BATCHES:
                return found
            offset = page[-1].last_offset + 1

    def delete_records(self, topic: str, partition: int, before_offset: int) -> Asking[int]:
        """Delete records. An offset of -1 means the end, which moves, so that request is not retried."""
        check_topic(topic)
        what = f"deleting records of {topic}-{partition:d}"
        path = f"/topics/{topic}/partitions/{partition:d}/records:delete"
        body = {"before_offset": before_offset}
        heeded = yield from self.ask(what, "POST", path, body, repeatable=before_offset >= 0)
        return read_answer(what, heeded, LogStart).log_start_offset

    def _v3(self, path: str) -> Asking[str]:
        if self._cluster is None:
            what = "asking for the cluster"
            clusters = read_answer(what, (yield from self.ask(what, "GET", "/v3/clusters")), Clusters)
            self._cluster = clusters.data[0].cluster_id
        return f"/v3/clusters/{self._cluster}{path}"


def _said(value: ConfigValue) -> ConfigValue:
    """Convert booleans to text, as the server expects them."""
    return str(value).lower() if isinstance(value, bool) else value


def _topic(what: str, heeded: Succeeded) -> TopicDescription:
    described = read_answer(what, heeded, PutTopic)
    return TopicDescription(described.name, len(described.partitions), described.configs)
