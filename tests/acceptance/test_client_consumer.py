"""The consumers on a real server: records, positions, commits, and what a group's members are told."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import httpx
import pytest

from lakelog import Admin, AsyncConsumer, Consumer, Header, OffsetAndMetadata, Producer, TopicPartition, errors
from tests.support.consumer_kinds import KINDS
from tests.support.serving import Server, serving, wait_for

SECONDS = 20.0
NAMES = itertools.count()
Open = Callable[..., Any]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("consumers") / "root") as server:
        yield server


@pytest.fixture
def topic(server: Server) -> str:
    """One of its own, with three partitions."""
    name = f"topic-{next(NAMES)}"
    assert httpx.put(f"{server.url}/topics/{name}", json={"partitions": 3}).status_code == 201
    return name


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, server: Server) -> Generator[Open]:
    """Opens consumers of one kind, in a group of their own if none is named, and closes them."""
    kinds: list[Any] = []

    def start(**settings: object) -> Any:
        kind = KINDS[request.param](given(server, **settings))
        kinds.append(kind)
        return kind

    yield start
    for kind in kinds:
        kind.close(timeout=5)
        if hasattr(kind, "end"):
            kind.end()


def given(server: Server, **more: object) -> dict[str, object]:
    defaults = {"bootstrap.servers": server.url, "group.id": f"group-{next(NAMES)}"}
    return defaults | {name.replace("_", "."): value for name, value in more.items()}


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
    for seconds in (0.0, 0.05, 0.3):
        began = time.monotonic()
        assert consumer.poll(seconds) == []
        assert seconds <= time.monotonic() - began < seconds + 5


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
    group = f"group-{next(NAMES)}"

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
    group = f"group-{next(NAMES)}"
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
    latest.assign([(topic, 0)])
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
    group, partition = f"group-{next(NAMES)}", TopicPartition(topic, 0)
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


# --- groups


def test_two_members_share_and_are_told_what_comes_and_goes_and_nothing_comes_twice(
    opened: Open, server: Server, topic: str
):
    send(server, topic, *(b"%d" % number for number in range(300)))
    group = f"group-{next(NAMES)}"
    told: list[tuple[str, str, int]] = []

    def listening(name: str) -> dict[str, Any]:
        return {
            f"on_{what}": lambda partitions, what=what: told.append((name, what, len(partitions)))
            for what in ("assign", "revoke", "lost")
        }

    first = opened(group_id=group, max_poll_records=20, fetch_max_bytes=1_000)
    first.subscribe([topic], **listening("first"))
    seen = read(first, 40)
    assert told == [("first", "assign", 3)]
    second = opened(group_id=group, max_poll_records=20, fetch_max_bytes=1_000)
    second.subscribe([topic], **listening("second"))
    deadline = time.monotonic() + SECONDS
    while len(seen) < 300:
        assert time.monotonic() < deadline
        seen += second.poll(0.05) + first.poll(0.05)
    assert len({(record.partition, record.offset) for record in seen}) == len(seen) == 300
    assert first.assignment().isdisjoint(second.assignment())
    assert len(first.assignment() | second.assignment()) == 3
    assert [what for name, what, _ in told if name == "first"] == ["assign", "revoke"]
    generation = first.group_metadata().generation
    second.close()
    assert told[-1][:2] == ("second", "revoke")
    wait_for(lambda: first.poll(0.1) == [] and len(first.assignment()) == 3)
    assert first.group_metadata().generation > generation
    assert nothing_comes(first), "all of it was committed when it moved"


def test_a_listener_seeks_before_any_record_comes(opened: Open, server: Server, topic: str):
    send(server, topic, *(b"%d" % number for number in range(10)), partition=0)
    consumer = opened()
    consumer.subscribe(
        topic, on_assign=lambda partitions: [consumer.seek(each, 4) for each in partitions if each[1] == 0]
    )
    assert [record.offset for record in consumer.poll(SECONDS)] == [4, 5, 6, 7, 8, 9]


def test_what_a_listener_raises_is_raised_and_the_consumer_goes_on(opened: Open, server: Server, topic: str):
    send(server, topic, b"a", partition=0)
    consumer = opened()
    consumer.subscribe(topic, on_assign=lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        consumer.poll(SECONDS)
    assert [record.value for record in consumer.poll(SECONDS)] == [b"a"]


def test_a_pattern_takes_up_topics_that_come(opened: Open, server: Server):
    prefix = f"many-{next(NAMES)}"
    consumer = opened()
    consumer.subscribe(pattern=f"{prefix}-.*")
    assert consumer.poll(0.1) == []
    with Admin({"bootstrap.servers": server.url}) as admin:
        for number in range(2):
            admin.create_topic(f"{prefix}-{number}", partitions=1)
            send(server, f"{prefix}-{number}", b"x")
    assert {record.topic for record in read(consumer, 2)} == {f"{prefix}-0", f"{prefix}-1"}
    assert consumer.subscription() == {f"{prefix}-0", f"{prefix}-1"}


def test_another_subscription_gives_up_what_it_does_not_have(opened: Open, server: Server, topic: str):
    other = f"topic-{next(NAMES)}"
    with Admin({"bootstrap.servers": server.url}) as admin:
        admin.create_topic(other, partitions=1)
    send(server, topic, b"a", partition=0)
    send(server, other, b"b", partition=0)
    told: list[tuple[str, set[str]]] = []
    listeners = {
        f"on_{what}": lambda partitions, what=what: told.append((what, {each.topic for each in partitions}))
        for what in ("assign", "revoke", "lost")
    }
    consumer = opened()
    consumer.subscribe([topic], **listeners)
    assert [record.topic for record in read(consumer, 1)] == [topic]
    consumer.subscribe([other], **listeners)
    assert [record.topic for record in read(consumer, 1)] == [other]
    assert consumer.subscription() == {other}
    assert told == [("assign", {topic}), ("revoke", {topic}), ("assign", {other})]
    assert consumer.committed([(topic, 0)])[topic, 0] == OffsetAndMetadata(1)
    with pytest.raises(errors.IllegalState, match="unsubscribe first"):
        consumer.assign([(topic, 0)])
    consumer.unsubscribe()
    assert (consumer.subscription(), consumer.assignment()) == (set(), set())
    with pytest.raises(errors.IllegalState, match="nothing is subscribed to"):
        consumer.poll(0)
    consumer.assign([(topic, 0)])
    assert consumer.assignment() == {(topic, 0)}


def test_who_does_not_poll_in_time_leaves_and_is_told_and_cannot_commit(opened: Open, server: Server, topic: str):
    send(server, topic, *(b"%d" % number for number in range(10)), partition=0)
    group, told = f"group-{next(NAMES)}", list[str]()
    slow = opened(group_id=group, max_poll_interval_ms=300, max_poll_records=5)
    slow.subscribe(
        topic,
        on_lost=lambda partitions: told.append(f"lost {len(partitions)}"),
        on_revoke=lambda _: told.append("revoked"),
    )
    assert len(read(slow, 5)) == 5
    quick = opened(group_id=group)
    quick.subscribe(topic)
    assert quick.poll(SECONDS)[0].offset == 0, "what the slow one had is given to others"
    quick.commit()
    with pytest.raises(errors.CommitFailed):
        slow.commit()
    with pytest.raises(errors.CommitFailed):
        slow.commit({(topic, 0): 5})
    assert told == []
    slow.poll(0.1)
    assert told[0] == "lost 3"
    assert quick.committed([(topic, 0)])[topic, 0] == OffsetAndMetadata(10)


def test_work_that_takes_long_keeps_the_membership(opened: Open, server: Server, topic: str):
    send(server, topic, b"a", partition=0)
    consumer = opened(session_timeout_ms=500, heartbeat_interval_ms=100)
    consumer.subscribe(topic)
    read(consumer, 1)
    member = consumer.group_metadata().member_id
    time.sleep(1.5)
    consumer.commit()
    assert consumer.group_metadata().member_id == member


def test_a_static_member_comes_back_to_what_it_had_and_fences_its_past(opened: Open, server: Server, topic: str):
    send(server, topic, b"a", b"b", partition=0)
    group = f"group-{next(NAMES)}"
    past = opened(group_id=group, group_instance_id="one", heartbeat_interval_ms=100)
    past.subscribe(topic)
    assert len(read(past, 2)) == 2
    successor = opened(group_id=group, group_instance_id="one")
    successor.subscribe(topic)
    assert [record.value for record in successor.poll(SECONDS)] == [b"a", b"b"]
    with pytest.raises(errors.Fenced):
        past.commit()
    with pytest.raises(errors.FencedInstance):
        wait_for(lambda: past.poll(0.1))
    successor.close()
    again = opened(group_id=group, group_instance_id="one")
    again.subscribe(topic)
    assert again.poll(0.5) == []
    assert len(again.assignment()) == 3


def test_what_no_repeat_can_mend_is_raised_by_poll_and_may_be_mended_by_others(opened: Open, server: Server):
    name = f"topic-{next(NAMES)}"
    consumer = opened()
    consumer.assign([(name, 0)])
    with pytest.raises(errors.UnknownTopic):
        consumer.poll(SECONDS)
    with Admin({"bootstrap.servers": server.url}) as admin:
        admin.create_topic(name, partitions=1)
    send(server, name, b"x")
    assert [record.value for record in consumer.poll(SECONDS)] == [b"x"]
    strange = opened(partition_assignment_strategy="no-such-assignor")
    strange.subscribe(name)
    with pytest.raises(errors.Refused, match="no-such-assignor"):
        strange.poll(SECONDS)


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(opened: Open, server: Server, topic: str):
    send(server, topic, b"old", b"old", b"old", partition=0)
    consumer = opened()
    consumer.subscribe(topic)
    read(consumer, 3)
    with Admin({"bootstrap.servers": server.url}) as admin:
        admin.delete_topic(topic)
        admin.create_topic(topic, partitions=1)
    send(server, topic, b"new", partition=0)
    assert [(record.offset, record.value) for record in read(consumer, 1)] == [(0, b"new")]


# --- threads


def test_a_wakeup_ends_a_poll_that_waits_or_the_next_one(opened: Open, server: Server, topic: str):
    consumer = opened()
    consumer.subscribe(topic)
    consumer.poll(0)
    threading.Timer(0.2, consumer.wakeup).start()
    with pytest.raises(errors.WokenUp):
        consumer.poll(SECONDS)
    consumer.wakeup()
    with pytest.raises(errors.WokenUp):
        consumer.poll(SECONDS)
    send(server, topic, b"x")
    assert len(consumer.poll(SECONDS)) == 1


def test_a_close_from_elsewhere_ends_a_poll_that_waits(opened: Open, topic: str):
    consumer = opened()
    consumer.subscribe(topic)
    threading.Timer(0.2, consumer.close).start()
    with pytest.raises(errors.Closed):
        consumer.poll(SECONDS)
    with pytest.raises(errors.Closed):
        consumer.poll(0)
    consumer.close()


def test_two_at_a_time_are_told(opened: Open, topic: str):
    consumer = opened()
    consumer.subscribe(topic)
    polling = threading.Thread(target=lambda: consumer.poll(1.0))
    polling.start()
    with pytest.raises(errors.ConcurrentUse):
        wait_for(lambda: consumer.poll(0))
    polling.join(SECONDS)
    assert consumer.poll(0) == []


def test_a_dead_server_is_no_reason_to_hang(topic: str, server: Server, tmp_path: Any):
    with serving(tmp_path) as mortal:
        httpx.put(f"{mortal.url}/topics/t", json={"partitions": 1})
        send(mortal, "t", b"x")
        consumer = Consumer(given(mortal, retry_backoff_ms=10))
        consumer.subscribe("t")
        assert len(consumer.poll(SECONDS)) == 1
        mortal.kill()
        for seconds in (0.0, 0.5):
            began = time.monotonic()
            assert consumer.poll(seconds) == []
            assert time.monotonic() - began < seconds + 2
        with pytest.raises(errors.NotAvailable):
            consumer.commit(timeout=0.3)
        began = time.monotonic()
        consumer.close(timeout=0.5)
        assert time.monotonic() - began < 3


def test_a_consumer_that_is_forgotten_leaves_its_group(server: Server, topic: str):
    group = f"group-{next(NAMES)}"
    consumer = Consumer(given(server, group_id=group))
    consumer.subscribe(topic)
    consumer.poll(1.0)
    assert len(httpx.get(f"{server.url}/groups/{group}").json()["members"]) == 1
    del consumer
    wait_for(lambda: not httpx.get(f"{server.url}/groups/{group}").json().get("members"))


def test_listeners_that_are_coroutines_are_awaited_and_may_commit(server: Server, topic: str):
    import asyncio

    send(server, topic, b"a", b"b", partition=0)

    async def main() -> None:
        told: list[str] = []

        async def going(partitions: list[TopicPartition]) -> None:
            await consumer.commit()
            told.append("going")

        async def gained(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(0)
            told.append("gained")

        async with AsyncConsumer(given(server, enable_auto_commit=False)) as consumer:
            consumer.subscribe(topic, on_assign=gained, on_revoke=going)
            assert len(await consumer.poll(SECONDS)) == 2
            await consumer.unsubscribe()
            assert told == ["gained", "going"]
            assert (await consumer.committed([(topic, 0)]))[topic, 0] == OffsetAndMetadata(2)

    asyncio.run(main())


def test_a_poll_that_is_cancelled_hands_out_nothing(server: Server, topic: str):
    import asyncio

    async def main() -> None:
        async with AsyncConsumer(given(server)) as consumer:
            consumer.subscribe(topic)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.poll(), 0.3)
            await asyncio.to_thread(send, server, topic, b"a", partition=0)
            assert [record.value for record in await consumer.poll(SECONDS)] == [b"a"]

    asyncio.run(main())
