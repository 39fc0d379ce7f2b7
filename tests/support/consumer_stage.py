"""Consumers of both kinds on a real server, the topics that they read, and what is in these."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Generator
from typing import Any

import httpx

from lakelog import Producer
from tests.support.consumer_kinds import KINDS
from tests.support.serving import Server

SECONDS = 40.0
NAMES = itertools.count()
Open = Callable[..., Any]


def make_topic(server: Server, partitions: int = 3) -> str:
    """One that nobody else uses."""
    name = f"topic-{next(NAMES)}"
    assert httpx.put(f"{server.url}/topics/{name}", json={"partitions": partitions}).status_code == 201
    return name


def new_group() -> str:
    return f"group-{next(NAMES)}"


def given(server: Server, **more: object) -> dict[str, object]:
    """Settings; in a group of its own if none is named."""
    defaults = {"bootstrap.servers": server.url, "group.id": new_group()}
    return defaults | {name.replace("_", "."): value for name, value in more.items()}


@contextlib.contextmanager
def opening(kind: str, server: Server) -> Generator[Open]:
    """Opens consumers of one kind, and closes them."""
    opened: list[Any] = []

    def start(**settings: object) -> Any:
        consumer = KINDS[kind](given(server, **settings))
        opened.append(consumer)
        return consumer

    try:
        yield start
    finally:
        for consumer in opened:
            consumer.close(timeout=SECONDS)
            if hasattr(consumer, "end"):
                consumer.end()


def send(server: Server, topic: str, *values: Any, partition: int | None = None, **more: Any) -> None:
    with Producer({"bootstrap.servers": server.url, "value.serializer": more.pop("serializer", "bytes")}) as producer:
        for value in values:
            producer.send(topic, value, partition=partition, **more)


def read(consumer: Any, count: int, **more: Any) -> list[Any]:
    records: list[Any] = []
    deadline = time.monotonic() + SECONDS
    while len(records) < count:
        assert time.monotonic() < deadline, f"only {len(records)} of {count} came"
        records += consumer.poll(0.2, **more)
    return records


def nothing_comes(consumer: Any) -> bool:
    return [record for _ in range(3) for record in consumer.poll(0.1)] == []
