"""Both producers' transactions on a real server: with consumers of both kinds, rebalances, rivals and time-outs."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from typing import Any

import httpx
import pytest

from lakelog import Admin, Consumer, RecordMetadata, TopicPartition
from lakelog.foundation import errors
from tests.support.client_kinds import KINDS, Kind
from tests.support.client_wire import DEADLINE_S
from tests.support.consumer_stage import Open, given, make_topic, new_group, opening, read, send
from tests.support.serving import Server, serving, wait_for

Produce = Callable[..., Kind]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("transactions") / "root", transaction_max_bytes=100_000) as server:
        yield server


@pytest.fixture
def topic(server: Server) -> str:
    return make_topic(server)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def opened(kind: str, server: Server) -> Generator[Open]:
    with opening(kind, server) as start:
        yield start


@pytest.fixture
def producing(kind: str, server: Server) -> Generator[Produce]:
    made: list[Kind] = []

    def start(name: str, **settings: object) -> Kind:
        more = {each.replace("_", "."): value for each, value in settings.items()}
        made.append(KINDS[kind]({"bootstrap.servers": server.url, "transactional.id": name} | more, None))
        return made[-1]

    yield start
    for each in made:
        each.end()


def count(server: Server, topic: str) -> int:
    with Admin({"bootstrap.servers": server.url}) as admin:
        return sum(admin.offsets(topic, partition).end_offset for partition in range(3))


def all_of(server: Server, topic: str) -> list[Any]:
    total = count(server, topic)
    with Consumer(given(server)) as consumer:
        consumer.assign([(topic, partition) for partition in range(3)])
        return read(consumer, total)


def values_of(server: Server, topic: str) -> list[bytes]:
    return sorted(record.value for record in all_of(server, topic))


def committed(server: Server, group: str) -> dict[TopicPartition, int]:
    with Admin({"bootstrap.servers": server.url}) as admin:
        return {partition: offset for partition, (offset, _) in admin.group_offsets(group).items()}


def test_records_and_what_they_were_made_of_are_committed_together(
    producing: Produce, opened: Open, server: Server, topic: str
):
    target, group = make_topic(server), new_group()
    for number in range(30):
        send(server, topic, b"%d" % number, key=b"%d" % number)
    consumer, producer = opened(**{"group.id": group, "enable.auto.commit": False}), producing(f"of {group}")
    consumer.subscribe([topic])
    done: list[Any] = []
    while len(done) < 30:
        records = consumer.poll(0.2, max_records=7)
        if not records:
            continue
        with producer.transaction() as transaction:
            futures = [producer.send(target, record.value, key=record.key) for record in records]
            transaction.send_offsets(consumer)
            producer.flush()
            assert count(server, target) == len(done)
        done += records
        assert sum(committed(server, group).values()) == count(server, target) == len(done)
    told = [future.result(DEADLINE_S) for future in futures]
    held = {RecordMetadata(each.topic, each.partition, each.offset, None) for each in all_of(server, target)}
    assert held >= set(told)
    assert values_of(server, target) == values_of(server, topic)


def test_a_consumer_whose_partitions_went_to_another_commits_nothing(
    producing: Produce, opened: Open, server: Server, topic: str
):
    target, group = make_topic(server), new_group()
    send(server, topic, b"x", partition=0)
    settings = {"group.id": group, "enable.auto.commit": False, "session.timeout.ms": 60_000}
    first, producer = opened(**settings), producing(f"of {group}")
    first.subscribe([topic])
    (record,) = read(first, 1)
    member = first.group_metadata().member_id
    with pytest.raises(errors.CommitFailed), producer.transaction() as transaction:
        future = producer.send(target, record.value)
        transaction.send_offsets(first)
        gone = httpx.delete(f"{server.url}/consumers/{group}/instances/{member}")
        assert gone.status_code == 204
    assert isinstance(future.exception(DEADLINE_S), errors.CommitFailed)
    first.close()
    second = opened(**settings)
    second.subscribe([topic])
    assert [each.value for each in read(second, 1)] == [b"x"]
    with producer.transaction() as transaction:
        producer.send(target, record.value)
        transaction.send_offsets(second)
    assert values_of(server, target) == [b"x"]


def test_partitions_of_several_generations_are_committed_at_once(
    producing: Produce, opened: Open, server: Server, topic: str
):
    """The first consumer keeps some from before, and is given others back."""
    group = new_group()
    for partition in range(3):
        send(server, topic, b"%d" % partition, partition=partition)
    settings = {
        "group.id": group,
        "enable.auto.commit": False,
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 50,
    }
    first, second, producer = opened(**settings), opened(**settings), producing(f"of {group}")
    first.subscribe([topic])
    wait_for(lambda: first.poll(0.05) is not None and len(first.assignment()) == 3)
    second.subscribe([topic])
    wait_for(lambda: [first.poll(0.05), second.poll(0.05)] and len(second.assignment()) == 1)
    second.close()
    wait_for(lambda: first.poll(0.05) is not None and len(first.assignment()) == 3)
    for partition in range(3):
        first.seek((topic, partition), 0)
    read(first, 3)
    with producer.transaction() as transaction:
        transaction.send_offsets(first)
    assert committed(server, group) == {TopicPartition(topic, partition): 1 for partition in range(3)}


def test_a_consumer_that_commits_by_itself_is_refused(producing: Produce, opened: Open, server: Server, topic: str):
    send(server, topic, b"x")
    consumer, producer = opened(), producing(new_group())
    consumer.subscribe([topic])
    read(consumer, 1)
    with producer.transaction() as transaction, pytest.raises(errors.IllegalState, match=r"enable\.auto\.commit"):
        transaction.send_offsets(consumer)


def test_offsets_of_a_group_in_which_nobody_reads_are_named(producing: Produce, server: Server, topic: str):
    group = new_group()
    send(server, topic, b"x", partition=1)
    producer = producing(group)
    with producer.transaction() as transaction:
        transaction.send_offsets(group, {(topic, 1): 1})
    assert committed(server, group) == {TopicPartition(topic, 1): 1}


def test_a_rival_of_the_same_name_shuts_the_older_one_out(producing: Produce, server: Server, topic: str):
    name = new_group()
    old, new = producing(name), producing(name)
    with pytest.raises(errors.TransactionFenced), old.transaction():
        old.send(topic, b"old")
        old.flush()
        with new.transaction():
            new.send(topic, b"new")
    assert values_of(server, topic) == [b"new"]


def test_a_transaction_that_is_too_large_or_too_slow_is_nowhere(producing: Produce, server: Server, topic: str):
    large = producing(new_group(), batch_size=10_000)
    with pytest.raises(errors.TransactionTooLarge) as caught, large.transaction():
        for _ in range(200):
            large.send(topic, b"x" * 1_000)
    assert caught.value.limit == 100_000
    slow = producing(new_group(), transaction_timeout_ms=300)
    with pytest.raises(errors.TransactionTimedOut), slow.transaction():
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            slow.send(topic, b"slow")
            slow.flush()
            time.sleep(0.02)
    assert values_of(server, topic) == []
