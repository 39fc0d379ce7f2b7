"""Consumer instances over HTTP, as a client of v2 sees them.

ann = consumer(app, "ann", "orders", format="json")
assert ann.values() == [1, 2]
ann.commit()
"""

from __future__ import annotations

from typing import Any

import httpx

from delta_log import Record
from tests.support.http_app import HttpApp

V2 = "application/vnd.kafka.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"
JSON = "application/vnd.kafka.json.v2+json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


class Consumer:
    """One instance; `says` are headers of all its requests."""

    def __init__(self, app: HttpApp, name: str, group: str = "g") -> None:
        self.app, self.name, self.group = app, name, group
        self.path = f"/consumers/{group}/instances/{name}"
        self.says: dict[str, str] = {}

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        headers = {**self.says, **given.pop("headers", {})}
        return self.app.request(method, self.path + path, headers=headers, **given)

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.ask("GET", path, **given)

    def post(self, path: str, **given: Any) -> httpx.Response:
        return self.ask("POST", path, **given)

    def delete(self, path: str = "", **given: Any) -> httpx.Response:
        return self.ask("DELETE", path, **given)

    def subscribe(self, *topics: str) -> None:
        assert self.post("/subscription", json={"topics": topics}).status_code == 204

    def assign(self, *partitions: tuple[str, int]) -> None:
        assert self.post("/assignments", json=named(*partitions)).status_code == 204

    def poll(self, query: str = "?timeout=0", **given: Any) -> httpx.Response:
        answer = self.get(f"/records{query}", **given)
        assert answer.status_code == 200, answer.text
        return answer

    def values(self, query: str = "?timeout=0") -> list[Any]:
        return [each["value"] for each in self.poll(query).json()]

    def commit(self, *offsets: dict[str, Any]) -> httpx.Response:
        return self.post("/offsets", json={"offsets": offsets}) if offsets else self.post("/offsets")

    def committed(self, *partitions: tuple[str, int]) -> list[int]:
        answer = self.get("/offsets", params=[pair for each in partitions for pair in in_query(*each)])
        assert answer.status_code == 200, answer.text
        return [each["offset"] for each in answer.json()["offsets"]]

    def assigned(self) -> list[int]:
        """The partitions of its one topic."""
        return [each["partition"] for each in self.get("/assignments").json()["partitions"]]

    def beat(self, *owned: tuple[str, int]) -> dict[str, list[int]]:
        """As a client that is told of revocations, and still holds these."""
        answer = self.post("/heartbeat", json={"owned": named(*owned)["partitions"]}).json()
        return {name: [each["partition"] for each in answer[name]] for name in ("assigned", "revoking")}


def consumer(app: HttpApp, name: str, *topics: str, group: str = "g", **options: object) -> Consumer:
    """A new instance, that does not commit by itself."""
    given = {"auto_commit_enable": False, "format": "json"} | options | {"name": name}
    made = app.post(f"/consumers/{group}", json={name.replace("_", "."): value for name, value in given.items()})
    assert made.status_code == 200, made.text
    instance = Consumer(app, name, group)
    if topics:
        instance.subscribe(*topics)
    return instance


def named(*partitions: tuple[str, int]) -> dict[str, list[dict[str, Any]]]:
    return {"partitions": [{"topic": topic, "partition": number} for topic, number in partitions]}


def in_query(topic: str, partition: int) -> list[tuple[str, str]]:
    return [("topic", topic), ("partition", str(partition))]


def at(topic: str, partition: int, **more: object) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, **more}


def make(app: HttpApp, topic: str, partitions: int = 1) -> None:
    assert app.put(f"/topics/{topic}", json={"partitions": partitions}).status_code == 201


def put(app: HttpApp, topic: str, partition: int, *values: object) -> None:
    app.log.append(topic, [Record(str(value).encode(), partition=partition) for value in values])
