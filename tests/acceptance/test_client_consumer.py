"""The consumers on a real server: records, where they are read from, and what is committed of them."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Generator
from typing import Any

import httpx
import pytest

from lakelog import Admin, Header, OffsetAndMetadata, TopicPartition
from lakelog.foundation import errors
from tests.support.consumer_kinds import KINDS
from tests.support.consumer_stage import (
    SECONDS,
    Open,
    make_topic,
    new_group,
    nothing_comes,
    opening,
    read,
    send,
)
from tests.support.serving import Server, serving, wait_for


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("consumers") / "root") as server:
        yield server


@pytest.fixture
def topic(server: Server) -> str:
    return make_topic(server)


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, server: Server) -> Generator[Open]:
    with opening(request.param, server) as start:
        yield start


def polls_answered(server: Server) -> int:
    found = re.findall(
        r'^lakelog_http_requests_total\{(?=[^}]*route="poll")(?=[^}]*status="200").*\} (\d+)',
        httpx.get(f"{server.url}/metrics").text,
        re.MULTILINE,
    )
    return sum(map(int, found))


# --- records


def test_what_was_sent_comes_as_it_was_sent(opened: Open, server: Server, topic: str):
    contents = [None, b"", b"\x00\xff", b"x" * 2_000]
    headers = [("name", b"\x00"), ("name", None), ("ü", b"")]
    for number, (key, value) in enumerate(itertools.product(contents, contents)):
        send(server, topic, value, key=key, headers=headers, timestamp=1_700_000_000_000 + number, partition=number % 3)
    consumer = opened()
    consumer.subscribe([topic])
    found = {(record.key, record.value): record for record in read(consumer, 16)}
    for number, (key, value) in enumerate(itertools.product(contents, contents)):
        record = found[key, value]
        assert (record.topic, record.partition, record.offset) == (topic, number % 3, number // 3)
        assert record.timestamp == 1_700_000_000_000 + number
        assert record.headers == (Header("name", b"\x00"), Header("name", None), Header("ü", b""))


def test_the_records_of_a_partition_come_in_order_and_a_poll_keeps_to_its_bounds(
    opened: Open, server: Server, topic: str
):
    send(server, topic, *(b"%d" % number for number in range(2_000)), partition=1)
    consumer = opened(max_poll_records=300, fetch_max_bytes=20_000)
    consumer.subscribe(topic)
    polls = []
    while sum(map(len, polls)) < 2_000:
        polls.append(consumer.poll(SECONDS))
    assert [record.offset for poll in polls for record in poll] == list(range(2_000))
    assert max(map(len, polls)) <= 300
    assert consumer.position((topic, 1)) == 2_000


def test_a_poll_ends_at_its_time(opened: Open, topic: str):
    consumer = opened()
    consumer.subscribe(topic)

    def took(seconds: float) -> float:
        began = time.monotonic()
        assert consumer.poll(seconds) == []
        return time.monotonic() - began

    for seconds in (0.0, 0.05, 0.3):
        tries = [took(seconds) for _ in range(3)]
        assert seconds <= min(tries) < seconds + 5, "once at least the machine did not stand still"


def test_a_record_that_comes_ends_a_poll_that_waits(opened: Open, server: Server, topic: str):
    consumer = opened()
    consumer.subscribe(topic)
    consumer.poll(0.5)
    sender = threading.Timer(0.3, send, (server, topic, b"late"))
    sender.start()
    assert [record.value for record in consumer.poll(SECONDS)] == [b"late"]
    sender.join()


def test_records_come_one_by_one_in_an_iteration_and_only_those_it_came_to_are_committed(
    opened: Open, server: Server, topic: str
):
    send(server, topic, *(b"%d" % number for number in range(1_000)), partition=0)
    consumer = opened(group_id="iterating")
    consumer.subscribe(topic)
    for record in consumer:
        if record.offset == 333:
            consumer.commit()
        if record.offset == 700:
            break
    assert consumer.committed([(topic, 0)]) == {TopicPartition(topic, 0): OffsetAndMetadata(334)}
    assert consumer.position((topic, 0)) == 701
    assert consumer.poll(SECONDS)[0].offset == 701
    consumer.close()
    assert list(consumer) == []


def test_an_error_in_the_loop_leaves_the_record_to_whoever_is_next(opened: Open, server: Server, topic: str):
    send(server, topic, *(b"%d" % number for number in range(10)), partition=0)
    group = new_group()

    def iterate(consumer: Any) -> None:
        with consumer:
            consumer.subscribe(topic)
            for record in consumer:
                _ = 1 / (5 - record.offset)

    def poll(consumer: Any) -> None:
        with consumer:
            consumer.subscribe(topic)
            assert [record.offset for record in consumer.poll(SECONDS)] == [5, 6]
            assert [record.offset for record in consumer.poll(SECONDS)] == [7, 8]
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        iterate(opened(group_id=group))
    with pytest.raises(ZeroDivisionError):
        poll(opened(group_id=group, max_poll_records=2))
    with opened(group_id=group) as consumer:
        consumer.subscribe(topic)
        assert consumer.poll(SECONDS)[0].offset == 7


def test_deserializers_read_keys_and_values_and_none_stays(opened: Open, server: Server, topic: str):
    send(server, topic, {"a": 1}, None, key=b"k", partition=0, serializer="json")
    consumer = opened(key_deserializer="string", value_deserializer="json")
    consumer.subscribe(topic)
    assert [(record.key, record.value) for record in read(consumer, 2)] == [("k", {"a": 1}), ("k", None)]


def test_a_record_that_cannot_be_read_is_named_and_can_be_passed_over(opened: Open, server: Server, topic: str):
    send(server, topic, b"1", b"2", b"x", b"4", partition=0)
    group = new_group()
    consumer = opened(group_id=group, value_deserializer=int)
    consumer.subscribe(topic)
    assert [record.value for record in read(consumer, 2)] == [1, 2]
    for _ in range(2):
        with pytest.raises(errors.NotDeserializable, match=f"the value of {topic}-0 at 2 cannot be read") as caught:
            consumer.poll(SECONDS)
    error = caught.value
    assert (error.topic, error.partition, error.offset, error.record.value) == (topic, 0, 2, b"x")
    assert isinstance(error.__cause__, ValueError)
    consumer.commit()
    assert consumer.committed([(topic, 0)])[topic, 0] == OffsetAndMetadata(2), "what was not handed out is not done"
    consumer.seek((error.topic, error.partition), error.offset + 1)
    assert [record.value for record in consumer.poll(SECONDS)] == [4]


def test_batches_are_tables_and_rows_go_on_where_batches_ended(opened: Open, server: Server, topic: str):
    headers = [("h", b"1"), ("n", None)]
    for partition in range(3):
        send(server, topic, *(b"%d" % number for number in range(400)), partition=partition, key=b"k", headers=headers)
    consumer = opened()
    consumer.subscribe(topic)
    table = consumer.poll_arrow(SECONDS, max_records=150)
    assert table.num_rows == 150
    assert table.column_names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    records = consumer.poll(SECONDS, max_records=150)
    assert len(records) == 150
    assert records[0].headers == (Header("h", b"1"), Header("n", None))
    tables = [table]
    while sum(each.num_rows for each in tables) < 1_050:
        tables.append(consumer.poll_arrow(SECONDS))
    found = [
        place
        for each in tables
        for place in zip(each["partition"].to_pylist(), each["offset"].to_pylist(), strict=True)
    ] + [(record.partition, record.offset) for record in records]
    assert sorted(found) == [(partition, offset) for partition in range(3) for offset in range(400)]
    empty = consumer.poll_arrow(0.1)
    assert (empty.num_rows, empty.schema) == (0, table.schema)
    assert all(1_600_000_000_000 < record.timestamp < 4_000_000_000_000 for record in records)


# --- positions


def test_seeking_goes_to_an_offset_an_end_or_a_time(opened: Open, server: Server, topic: str):
    for number in range(10):
        send(server, topic, b"%d" % number, partition=0, timestamp=1_700_000_000_000 + number)
    consumer = opened()
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    assert consumer.poll(SECONDS)[0].offset == 0
    consumer.seek(partition, 7)
    assert consumer.position(partition) == 7
    assert [record.offset for record in consumer.poll(SECONDS)] == [7, 8, 9]
    consumer.seek_to_beginning()
    assert consumer.position(partition) == 0
    assert consumer.poll(SECONDS)[0].offset == 0
    consumer.seek_to_time(1_700_000_000_004, [partition])
    assert consumer.position(partition) == 4
    assert consumer.poll(SECONDS)[0].offset == 4
    consumer.seek_to_time(1_800_000_000_000, [partition])
    assert consumer.position(partition) == 10
    consumer.seek_to_end([partition])
    assert consumer.lag() == {partition: 0}
    consumer.poll(0.3)
    send(server, topic, b"new", partition=0)
    assert [record.offset for record in consumer.poll(SECONDS)] == [10]
    with pytest.raises(errors.IllegalState, match="not assigned"):
        consumer.seek((topic, 1), 0)


def test_what_is_paused_is_kept_back_and_comes_then(opened: Open, server: Server, topic: str):
    for partition in range(2):
        send(server, topic, b"a", b"b", partition=partition)
    consumer = opened()
    consumer.subscribe(topic)
    read(consumer, 4)
    consumer.pause([(topic, 0)])
    assert consumer.paused() == {(topic, 0)}
    for partition in range(2):
        send(server, topic, b"c", partition=partition)
    assert [record.partition for record in read(consumer, 1)] == [1]
    assert nothing_comes(consumer)
    consumer.resume([(topic, 0)])
    assert [(record.partition, record.value) for record in read(consumer, 1)] == [(0, b"c")]


def test_the_log_is_asked_without_reading(opened: Open, server: Server, topic: str):
    for number in range(5):
        send(server, topic, b"x", partition=0, timestamp=1_700_000_000_000 + number)
    with Admin({"bootstrap.servers": server.url}) as admin:
        admin.delete_records(topic, 0, 2)
    consumer = opened()
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    assert consumer.beginning_offsets([zero, one]) == {zero: 2, one: 0}
    assert consumer.end_offsets([zero, (topic, 1)]) == {zero: 5, one: 0}
    times = {zero: 1_700_000_000_003, one: 0}
    assert consumer.offsets_for_times(times) == {zero: 3, one: None}
    assert consumer.committed([zero]) == {zero: None}
    with pytest.raises(errors.UnknownTopic):
        consumer.end_offsets([("no-such-topic", 0)])


def test_where_nothing_is_committed_the_policy_says_where_to_begin(opened: Open, server: Server, topic: str):
    send(server, topic, b"old", partition=0)
    latest, none = opened(auto_offset_reset="latest"), opened(auto_offset_reset="none")
    before = polls_answered(server)
    latest.assign([(topic, 0)])
    wait_for(lambda: latest.poll(0.1) == [] and polls_answered(server) > before, "an answer, so it knows the end")
    assert nothing_comes(latest)
    send(server, topic, b"new", partition=0)
    assert [record.value for record in latest.poll(SECONDS)] == [b"new"]
    none.assign([(topic, 0)])
    for _ in range(2):
        with pytest.raises(errors.NoOffset) as caught:
            none.poll(SECONDS)
        assert (caught.value.topic, caught.value.partition) == (topic, 0)
    none.seek((topic, 0), 1)
    assert [record.value for record in none.poll(SECONDS)] == [b"new"]


# --- commits


def test_a_commit_is_where_the_group_goes_on(opened: Open, server: Server, topic: str):
    send(server, topic, *(b"%d" % number for number in range(10)), partition=0)
    group, partition = new_group(), TopicPartition(topic, 0)
    consumer = opened(group_id=group, enable_auto_commit=False, max_poll_records=4)
    consumer.subscribe(topic)
    read(consumer, 4)
    consumer.commit()
    assert consumer.committed([partition]) == {partition: OffsetAndMetadata(4)}
    consumer.commit({partition: OffsetAndMetadata(2, "a note")})
    assert consumer.committed([partition]) == {partition: OffsetAndMetadata(2, "a note")}
    consumer.commit({(topic, 0): 3})
    with pytest.raises(errors.OffsetOutOfRange):
        consumer.commit({partition: 11})
    consumer.close()
    successor = opened(group_id=group)
    successor.subscribe(topic)
    assert successor.poll(SECONDS)[0].offset == 3


def test_a_commit_without_waiting_is_called_back_by_a_later_call(opened: Open, server: Server, topic: str):
    send(server, topic, b"a", b"b", partition=0)
    consumer = opened(enable_auto_commit=False)
    consumer.subscribe(topic)
    read(consumer, 2)
    heard: list[Any] = []
    consumer.commit_async(callback=lambda *outcome: heard.append(outcome))
    consumer.commit_async({(topic, 0): 99}, lambda *outcome: heard.append(outcome))
    consumer.commit_async({(topic, 0): 1}, lambda *outcome: heard.append(outcome))
    wait_for(lambda: consumer.poll(0.05) == [] and len(heard) == 3)
    assert [error if error is None else type(error) for error, _ in heard] == [None, errors.OffsetOutOfRange, None]
    assert [offsets for _, offsets in heard] == [
        {(topic, 0): OffsetAndMetadata(2)}, {(topic, 0): OffsetAndMetadata(99)}, {(topic, 0): OffsetAndMetadata(1)},
    ]  # fmt: skip
    assert consumer.committed([(topic, 0)])[topic, 0] == OffsetAndMetadata(1)


def test_auto_commit_commits_what_the_caller_came_back_from(opened: Open, server: Server, topic: str):
    send(server, topic, *(b"%d" % number for number in range(6)), partition=0)
    consumer = opened(auto_commit_interval_ms=0, max_poll_records=2)
    consumer.subscribe(topic)
    read(consumer, 2)
    assert consumer.committed([(topic, 0)])[topic, 0] is None
    read(consumer, 2)
    wait_for(lambda: consumer.committed([(topic, 0)])[topic, 0] == OffsetAndMetadata(2))


def test_a_close_commits_and_without_auto_commit_it_does_not(opened: Open, server: Server, topic: str):
    send(server, topic, b"a", b"b", b"c", partition=0)
    for auto, expected in ((False, 0), (True, 0), (True, 3)):
        consumer = opened(group_id="closing" + topic, enable_auto_commit=auto)
        consumer.subscribe(topic)
        if expected == 3:
            assert consumer.poll(0.5) == []
            consumer.close()
            break
        assert read(consumer, 3)[0].offset == expected
        consumer.close()
