"""The clients on a real server: what goes in comes out, in every form, and what cannot be stored is told precisely."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from lakelog import Admin, AsyncAdmin, AsyncProducer, Producer, RecordMetadata
from lakelog.foundation import errors
from lakelog.transport.exchange import Answer, Outcome, Request
from lakelog.transport.http import HttpTransport
from tests.support.figures import metric
from tests.support.raw_http import RawClient
from tests.support.serving import Server, serving, wait_for

FIELDS = b"Host: localhost\r\nContent-Type: application/json\r\n"
T = TypeVar("T")
SECONDS = 40.0
NAMES = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("clients") / "root", max_body_bytes=100_000) as server:
        yield server


class InThread:
    """An AsyncAdmin or AsyncProducer whose methods block, as those of their twins do."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._runner = asyncio.Runner()
        self._client = self._runner.run(_made(make))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *given, **named: self._runner.run(getattr(self._client, name)(*given, **named))

    def end(self) -> None:
        self._runner.run(self._client.close())
        self._runner.close()


async def _made(make: Callable[[], T]) -> T:
    return make()


@pytest.fixture(params=[Admin, AsyncAdmin], ids=["threads", "tasks"])
def admin(request: pytest.FixtureRequest, server: Server) -> Generator[Admin]:
    settings = {"bootstrap.servers": server.url}
    if request.param is Admin:
        with Admin(settings) as client:
            yield client
        return
    client = InThread(lambda: AsyncAdmin(settings))
    yield client  # type: ignore[misc]
    client.end()


@pytest.fixture
def topic(server: Server) -> str:
    """One of its own, with three partitions."""
    name = f"topic-{next(NAMES)}"
    assert httpx.put(f"{server.url}/topics/{name}", json={"partitions": 3}).status_code == 201
    return name


def settings(server: Server, **more: object) -> dict[str, object]:
    return {"bootstrap.servers": server.url} | {name.replace("_", "."): value for name, value in more.items()}


def read(server: Server, topic: str) -> list[dict[str, Any]]:
    """Everything of a topic, in the order of its partitions, as the binary envelope shows it."""
    found: list[dict[str, Any]] = []
    for partition in httpx.get(f"{server.url}/topics/{topic}").json()["partitions"]:
        path = f"{server.url}/topics/{topic}/partitions/{partition['partition']}/records"
        answer = httpx.get(path, headers={"Accept": "application/vnd.kafka.binary.v2+json"})
        assert answer.status_code == 200
        found += answer.json()
    return found


def encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_what_goes_in_comes_out_where_the_future_says(server: Server, topic: str, compression: str):
    contents = [None, b"", b"\x00\xff", "ä".encode(), b"x" * 2_000, b'{"json": true}']
    headers = [("name", b"\x00"), ("name", None), ("ü", b"")]
    with Producer(settings(server, compression_type=compression, linger_ms=5)) as producer:
        futures = [
            producer.send(topic, value, key=key, headers=headers, timestamp=1_700_000_000_000 + number)
            for number, (key, value) in enumerate(itertools.product(contents, contents))
        ]
    found = {(record["partition"], record["offset"]): record for record in read(server, topic)}
    for number, (key, value) in enumerate(itertools.product(contents, contents)):
        place = futures[number].result(SECONDS)
        record = found.pop((place.partition, place.offset))
        assert (record["key"], record["value"]) == (encoded(key), encoded(value))
        assert record["timestamp"] == place.timestamp == 1_700_000_000_000 + number
        assert record["headers"] == [{"name": name, "value": encoded(content)} for name, content in headers]
    assert found == {}


def test_the_server_puts_the_time_where_none_was_given(server: Server, topic: str):
    with Producer(settings(server)) as producer:
        place = producer.send(topic, b"x").result(SECONDS)
    assert place.timestamp is None
    assert [record["timestamp"] > 1_700_000_000_000 for record in read(server, topic)] == [True]


def test_tasks_store_the_same_as_threads(server: Server, topic: str):
    async def main() -> list[RecordMetadata]:
        async with AsyncProducer(settings(server, value_serializer="json", key_serializer="string")) as producer:
            futures = [await producer.send(topic, {"n": number}, key=f"k{number % 5}") for number in range(200)]
            return [await future for future in futures]

    places = asyncio.run(main())
    found = {
        (record["partition"], record["offset"]): base64.b64decode(record["value"]) for record in read(server, topic)
    }
    assert [found[place.partition, place.offset] for place in places if place.partition is not None] == [
        b'{"n":%d}' % number for number in range(200)
    ]


@pytest.mark.parametrize("partitioner", ["murmur2", "murmur3", "md5"])
def test_a_key_goes_where_the_server_would_send_it(server: Server, partitioner: str):
    name = f"topic-{next(NAMES)}"
    with Admin(settings(server)) as admin:
        admin.create_topic(name, partitions=7, configs={"lakelog.partitioner": partitioner})
    keys = [b"%d" % number for number in range(40)]
    with Producer(settings(server)) as by_server, Producer(settings(server, partitioner=partitioner)) as by_client:
        ours = [by_client.send(name, b"", key=key) for key in keys]
        theirs = [by_server.send(name, b"", key=key) for key in keys]
        found = [
            (one.result(SECONDS).partition, other.result(SECONDS).partition)
            for one, other in zip(ours, theirs, strict=True)
        ]
    assert all(one == other for one, other in found)
    assert len({one for one, _ in found}) == 7


def test_a_record_for_a_partition_that_is_not_there_takes_none_of_the_others_with_it(server: Server, topic: str):
    with Producer(settings(server, linger_ms=20)) as producer:
        futures = [producer.send(topic, b"%d" % number, partition=number % 5) for number in range(20)]
    for number, future in enumerate(futures):
        if number % 5 < 3:
            assert future.result(SECONDS).partition == number % 5
        else:
            assert isinstance(future.exception(SECONDS), errors.UnknownPartition)


def test_records_that_a_topic_refuses_take_none_of_the_others_with_them_and_order_is_kept(server: Server):
    name = f"topic-{next(NAMES)}"
    with Admin(settings(server)) as admin:
        admin.create_topic(name, partitions=1, configs={"max.message.bytes": 1_000})
    with Producer(settings(server, linger_ms=20)) as producer:
        futures = [producer.send(name, (b"%d" % number) * (2_000 if number in (3, 8) else 1)) for number in range(10)]
        later = [producer.send(name, b"later") for _ in range(100)]
    assert [future.result(SECONDS).offset for number, future in enumerate(futures) if number not in (3, 8)] == list(
        range(8)
    )
    for number in (3, 8):
        error = futures[number].exception(SECONDS)
        assert isinstance(error, errors.RecordTooLarge)
        assert (error.limit, error.said is not None) == (1_000, True)
    assert [future.result(SECONDS).offset for future in later] == list(range(8, 108))


def test_a_batch_that_the_server_finds_too_large_is_sent_in_parts(server: Server, topic: str):
    with Producer(settings(server, linger_ms=50, batch_size=600_000, max_request_size=1_000_000)) as producer:
        futures = [producer.send(topic, b"%04d" % number + b"x" * 1_000, partition=0) for number in range(400)]
        alone = producer.send(topic, b"x" * 200_000)
    assert [future.result(SECONDS).offset for future in futures] == list(range(400))
    error = alone.exception(SECONDS)
    assert error is not None
    assert error.said is not None
    assert error.said.status == 413


def test_a_topic_that_is_not_there_is_told_and_when_it_is_made_the_producer_goes_on(server: Server):
    name = f"topic-{next(NAMES)}"
    with Producer(settings(server)) as producer, Admin(settings(server)) as admin:
        error = producer.send(name, b"x").exception(SECONDS)
        assert isinstance(error, errors.UnknownTopic)
        assert error.outcome == "not_attempted"
        admin.create_topic(name, partitions=1)
        assert producer.send(name, b"x").result(SECONDS).offset == 0
        admin.delete_topic(name)
        admin.create_topic(name, partitions=1)
        assert producer.send(name, b"y").result(SECONDS).offset == 0, "in its new life the topic knows no producer"


def test_with_acks_0_records_are_stored_too(server: Server, topic: str):
    with Producer(settings(server, acks=0)) as producer:
        futures = [producer.send(topic, b"%d" % number, partition=0) for number in range(50)]
    assert {future.result(SECONDS) for future in futures} == {RecordMetadata(topic, None, None, None)}
    found = [record["value"] for record in read(server, topic)]
    assert sorted(found) == sorted(encoded(b"%d" % number) for number in range(50))  # type: ignore[type-var]


def test_a_server_that_has_no_room_is_given_time(tmp_path: Path):
    """It answers 503 with Retry-After as long as other bodies are in its memory."""
    statuses: list[int] = []

    class Counting(HttpTransport):
        def send(self, request: Request) -> Outcome:
            outcome = super().send(request)
            statuses.append(outcome.status if isinstance(outcome, Answer) else 0)
            return outcome

    with serving(tmp_path, max_body_bytes=400_000, max_bodies_bytes=400_000) as server:
        httpx.put(f"{server.url}/topics/t", json={"partitions": 1})
        given = settings(server, batch_size=200_000)
        with (
            RawClient(server.port) as other,
            Producer(given, transport=Counting(server.url, "counting", 6)) as producer,
        ):
            other.send(b"POST /topics/t HTTP/1.1\r\n" + FIELDS + b"Content-Length: 390001\r\n\r\n" + b" " * 390_000)
            wait_for(lambda: metric(server, "lakelog_http_bodies_bytes") == 390_000, "the body of another")
            futures = [producer.send("t", b"x" * 10_000) for _ in range(100)]
            wait_for(lambda: 503 in statuses, "that there is no room")
            other.socket.close()
        assert [future.result(SECONDS).offset for future in futures] == list(range(100))
    assert {200, 503} <= set(statuses)


def test_topics_are_made_described_changed_and_deleted(admin: Admin):
    name = f"topic-{next(NAMES)}"
    made = admin.create_topic(name, partitions=2, configs={"retention.ms": 86_400_000, "cleanup.policy": "delete"})
    assert (made.name, made.partitions, made.configs["retention.ms"]) == (name, 2, "86400000")
    assert name in admin.list_topics()
    with pytest.raises(errors.TopicExists):
        admin.create_topic(name)
    assert admin.create_topic(name, exist_ok=True).partitions == 2
    with pytest.raises(errors.TopicExists, match="it has 2 partitions, not 3"):
        admin.create_topic(name, partitions=3, exist_ok=True)
    admin.add_partitions(name, 4)
    described = admin.describe_topic(name)
    assert (described.partitions, described.configs["cleanup.policy"]) == (4, "delete")
    with pytest.raises(errors.InvalidConfig):
        admin.add_partitions(name, 3)
    admin.delete_topic(name)
    assert name not in admin.list_topics()
    for ask in (admin.describe_topic, admin.delete_topic, admin.describe_configs):
        with pytest.raises(errors.UnknownTopic):
            ask(name)


def test_settings_of_topics_are_described_and_changed_all_or_none(admin: Admin, topic: str):
    admin.alter_configs(topic, {"retention.ms": 123_456_789, "cleanup.policy": "delete"})
    configs = admin.describe_configs(topic)
    assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("123456789", False)
    with pytest.raises(errors.LakelogError):
        admin.alter_configs(topic, {"retention.ms": 1_000, "no.such.setting": 1})
    assert admin.describe_configs(topic)["retention.ms"].value == "123456789"
    admin.alter_configs(topic, {"retention.ms": None})
    assert admin.describe_configs(topic)["retention.ms"].is_default
    with pytest.raises(errors.InvalidConfig):
        admin.create_topic(f"{topic}-x", configs={"no.such.setting": 1})


def test_offsets_are_told_and_moved(admin: Admin, server: Server, topic: str):
    with Producer(settings(server)) as producer:
        for number in range(10):
            producer.send(topic, b"x", partition=0, timestamp=1_700_000_000_000 + number)
    known = admin.offsets(topic, 0, timestamp=1_700_000_000_004)
    assert (known.beginning_offset, known.end_offset, known.offset) == (0, 10, 4)
    assert admin.delete_records(topic, 0, 3) == 3
    assert admin.offsets(topic, 0).beginning_offset == 3
    with pytest.raises(errors.OffsetOutOfRange) as caught:
        admin.delete_records(topic, 0, 99)
    assert (caught.value.log_start_offset, caught.value.end_offset) == (3, 10)
    assert admin.delete_records(topic, 0, -1) == 10
    with pytest.raises(errors.UnknownPartition):
        admin.offsets(topic, 9)
