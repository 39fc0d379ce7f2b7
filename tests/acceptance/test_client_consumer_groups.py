"""Consumers that share a group, on a real server, and threads that share a consumer.

It is long, as all promises of groups are tried with both kinds of consumer, on one server.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakelog import Admin, AsyncConsumer, Consumer, OffsetAndMetadata, TopicPartition
from lakelog.foundation import errors
from tests.support.consumer_kinds import KINDS, InLoop
from tests.support.consumer_stage import (
    SECONDS,
    Open,
    given,
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


def wait_until_assigned(consumer: Any) -> None:
    """Of topics in which there is nothing to read."""
    wait_for(lambda: consumer.poll(0.05) == [] and consumer.assignment(), "partitions")


# --- groups


def test_two_members_share_and_are_told_what_comes_and_goes_and_nothing_comes_twice(
    opened: Open, server: Server, topic: str
):
    send(server, topic, *(b"%d" % number for number in range(300)))
    group = new_group()
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
    while len(seen) < 300 or not second.assignment():
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
    prefix = f"many-{new_group()}"
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
    other = make_topic(server, partitions=1)
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
    group, told = new_group(), list[str]()
    slow = opened(group_id=group, max_poll_interval_ms=300, max_poll_records=5)
    slow.subscribe(
        topic,
        on_lost=lambda partitions: told.append(f"lost {len(partitions)}"),
        on_revoke=lambda _: told.append("revoked"),
    )
    assert len(read(slow, 5)) == 5
    told.clear()  # of a machine that stood still for that time before
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

    def keeps_it(session_ms: int) -> bool:
        consumer = opened(group_id=new_group(), session_timeout_ms=session_ms, heartbeat_interval_ms=100)
        consumer.subscribe(topic)
        read(consumer, 1)
        member = consumer.group_metadata().member_id
        time.sleep(2 * session_ms / 1000)
        try:
            consumer.commit()
        except errors.Fenced:
            return False
        return consumer.group_metadata().member_id == member

    assert any(map(keeps_it, (1_500, 10_000))), "a member that stood still for the first is no fault"


def test_a_static_member_comes_back_to_what_it_had_and_fences_its_past(opened: Open, server: Server, topic: str):
    send(server, topic, b"a", b"b", partition=0)
    group = new_group()
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
    wait_until_assigned(again)
    assert len(again.assignment()) == 3


def test_what_no_repeat_can_mend_is_raised_by_poll_and_may_be_mended_by_others(opened: Open, server: Server):
    name = f"topic-of-{new_group()}"
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
    known = (consumer._consumer if isinstance(consumer, InLoop) else consumer)._known

    def poll() -> None:
        with pytest.raises(errors.WokenUp):
            consumer.poll(SECONDS)

    polling = threading.Thread(target=poll)
    polling.start()
    wait_for(lambda: known.polling)
    with pytest.raises(errors.ConcurrentUse):
        consumer.poll(0)
    consumer.wakeup()
    polling.join(SECONDS)
    assert consumer.poll(0) == []


def is_told_that_nobody_is_there(consumer: Consumer) -> bool:
    """Who had no time to find out says that it is unknown, which is true as well."""
    with pytest.raises((errors.NotAvailable, errors.OutcomeUnknown)) as caught:
        consumer.commit(timeout=0.3)
    return caught.type is not errors.OutcomeUnknown


def test_a_dead_server_is_no_reason_to_hang(tmp_path: Path):
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
            assert time.monotonic() - began < seconds + 15
        wait_for(lambda: is_told_that_nobody_is_there(consumer))
        began = time.monotonic()
        consumer.close(timeout=0.5)
        assert time.monotonic() - began < 15


def test_a_consumer_that_is_forgotten_leaves_its_group(server: Server, topic: str):
    group = new_group()
    consumer = Consumer(given(server, group_id=group))
    consumer.subscribe(topic)
    wait_until_assigned(consumer)
    assert len(httpx.get(f"{server.url}/groups/{group}").json()["members"]) == 1
    del consumer
    wait_for(lambda: not httpx.get(f"{server.url}/groups/{group}").json().get("members"))


def test_listeners_that_are_coroutines_are_awaited_and_may_commit(server: Server, topic: str):
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
    async def main() -> None:
        async with AsyncConsumer(given(server)) as consumer:
            consumer.subscribe(topic)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(consumer.poll(), 0.3)
            await asyncio.to_thread(send, server, topic, b"a", partition=0)
            assert [record.value for record in await consumer.poll(SECONDS)] == [b"a"]

    asyncio.run(main())
