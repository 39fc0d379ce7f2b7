"""The parts of a consumer by themselves: its settings, its buffer, its requests, and what it needs to be there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog import Consumer, TopicPartition
from lakelog.consume.buffer import Buffer
from lakelog.consume.consumption import Consumption
from lakelog.consume.effects import Wait
from lakelog.consume.instance_api import Asked, Wire
from lakelog.consume.partition_state import Held
from lakelog.consume.record_run import Rows, find_runs
from lakelog.consume.settings import ConsumerSettings
from lakelog.consume.shapes import ConsumerRecord
from lakelog.consume.subscription import Manual, Topics
from lakelog.foundation import errors
from lakelog.transport.exchange import Answer, NotSent, Outcome, Request
from lakelog.transport.retry import Heard
from tests.support.serving import wait_for

MUST = {"bootstrap.servers": "localhost:1", "group.id": "g"}
ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    wait_for(lambda: not [each.name for each in threading.enumerate() if each.name.startswith("lakelog-consumer")])


def held(partition: TopicPartition = ONE) -> Held:
    return Held(partition, 1, announced=True, stage="kept")


def rows(partition: TopicPartition, *offsets: int, value: bytes = b"1") -> Rows:
    return Rows([ConsumerRecord(*partition, offset, 0, None, value) for offset in offsets])


def offsets(handed: Any) -> list[tuple[int, int]]:
    return [(record.partition, record.offset) for each in handed for record in each.records]


# --- settings


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("group.id", ""),
        ("group.id", "x" * 256),
        ("group.id", "a\nb"),
        ("group.id", 5),
        ("auto.offset.reset", "Earliest"),
        ("auto.offset.reset", "by_duration:"),
        ("enable.auto.commit", "yes"),
        ("max.poll.records", 0),
        ("session.timeout.ms", 99),
        ("value.deserializer", "avro"),
        ("enable.auto.comit", True),
    ],
)
def test_what_cannot_be_set_is_refused_by_name(setting: str, value: object):
    with pytest.raises(errors.InvalidSetting, match=setting):
        ConsumerSettings.of(MUST | {setting: value})


def test_a_group_must_be_named_and_heartbeats_come_within_a_session():
    with pytest.raises(errors.InvalidSetting, match=r"group\.id: it must be given"):
        ConsumerSettings.of({"bootstrap.servers": "localhost:1"})
    with pytest.raises(errors.InvalidSetting, match=r"heartbeat\.interval\.ms"):
        ConsumerSettings.of(MUST | {"session.timeout.ms": 3_000})
    assert ConsumerSettings.of(MUST | {"auto.offset.reset": "by_duration:PT1H"}).auto_offset_reset == "by_duration:PT1H"


# --- the buffer


def test_records_leave_in_the_order_in_which_they_came_up_to_a_bound():
    buffer, one, two = Buffer(), held(), held(TWO)
    buffer.add(one, rows(ONE, 0, 1, 2))
    buffer.add(two, rows(TWO, 5, 6))
    assert (one.expected, two.expected, buffer.ready) == (3, 7, 5)
    assert offsets(buffer.take(4, as_rows=True)) == [(0, 0), (0, 1), (0, 2), (1, 5)]
    assert (one.position, two.position) == (3, 6)
    assert offsets(buffer.take(4, as_rows=True)) == [(1, 6)]
    assert buffer.take(4, as_rows=True) == []


def test_what_is_paused_or_going_stays_and_what_was_sought_away_from_is_forgotten():
    buffer, one, two = Buffer(), held(), held(TWO)
    buffer.add(one, rows(ONE, 0, 1))
    buffer.add(two, rows(TWO, 0, 1))
    one.paused = True
    assert offsets(buffer.take(9, as_rows=True)) == [(1, 0), (1, 1)]
    one.paused = False
    one.seek(1)
    buffer.purge()
    assert buffer.take(9, as_rows=True) == []
    assert one.position == 1


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 9), st.integers(0, 20))
def test_what_is_put_back_comes_again_and_positions_are_where_the_caller_is(sizes: list[int], most: int, used: int):
    buffer, one, begin = Buffer(), held(), 0
    for size in sizes:
        buffer.add(one, rows(ONE, *range(begin, begin + size)))
        begin += size
    handed = buffer.take(most, as_rows=True)
    count = min(most, begin)
    used = min(used, count)
    assert one.position == count
    buffer.put_back(handed, used)
    assert one.position == (used or None)
    again = [offset for _ in range(begin) for _, offset in offsets(buffer.take(3, as_rows=True))]
    assert again == list(range(used, begin))


def test_records_before_one_that_cannot_be_read_are_handed_out_first():
    buffer, one = Buffer(value=int), held()
    buffer.add(one, rows(ONE, 0, 1))
    buffer.add(one, rows(ONE, 2, value=b"x"))
    buffer.add(one, rows(ONE, 3))
    handed = buffer.take(9, as_rows=True)
    assert [record.value for each in handed for record in each.records or ()] == [1, 1]
    for _ in range(2):
        with pytest.raises(errors.NotDeserializable) as caught:
            buffer.take(9, as_rows=True)
        assert (caught.value.what, caught.value.offset, one.position) == ("value", 2, 2)
    one.seek(3)
    buffer.purge()
    buffer.add(one, rows(ONE, 3))
    assert offsets(buffer.take(9, as_rows=True)) == [(0, 3)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 50)), max_size=4, unique_by=lambda run: run[0]))
def test_runs_are_found_where_the_key_changes(runs: list[tuple[int, int]]):
    keys = [key for key, count in runs for _ in range(count)]
    found = list(find_runs(len(keys), keys.__getitem__))
    assert [(key, end - begin) for key, begin, end in found] == runs


# --- requests


def test_the_server_commits_nothing_by_itself_and_leaves_time_between_polls_to_the_client():
    request = Wire(ConsumerSettings.of(MUST | {"group.id": "a/b ü", "group.instance.id": "one"})).join("name")
    assert request.path == "/consumers/a%2Fb%20%C3%BC"
    assert b'"auto.commit.enable":false' in request.body
    assert b'"max.poll.interval.ms":2147483647' in request.body
    assert b'"group.instance.id":"one"' in request.body


def test_a_request_never_waits_long_and_its_head_is_never_too_large():
    wire = Wire(ConsumerSettings.of(MUST | {"fetch.max.wait.ms": 60_000}))
    many = [TopicPartition("t" * 200, number) for number in range(1_000)]
    request = wire.records("name", Asked(many, 7, 5, 3), arrow=False)
    assert "timeout=500&" in request.path
    assert len(request.path) < 17_000
    assert not request.path.endswith(",")
    said = [request.headers[f"Lakelog-{name}"] for name in ("Received", "Done", "Generation")]
    assert said == ["7", "5", "3"]


# --- what it needs, and what it survives


@pytest.mark.parametrize(("call", "package"), [("poll_arrow", "pyarrow"), ("poll_pandas", "pandas")])
def test_without_a_package_batches_say_what_is_missing(call: str, package: str):
    script = f"""
import sys
sys.modules[{package!r}] = None
from lakelog import Consumer
consumer = Consumer({MUST!r})
consumer.subscribe("t")
try:
    consumer.{call}(0)
except ImportError as error:
    print(error.name, "|", error)
consumer.close(0)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    name, _, text = ended.stdout.strip().partition(" | ")
    assert name == package
    assert "pip install" in text


class Unreachable:
    def send(self, request: Request) -> Outcome:
        return NotSent("refused")

    def close(self) -> None:
        """Nothing was opened."""


class Broken(Unreachable):
    def send(self, request: Request) -> Outcome:
        raise RuntimeError("a fault of our own")


def test_a_consumer_whose_work_fails_is_closed_and_says_why(caplog: pytest.LogCaptureFixture):
    consumer = Consumer(MUST, transport=Broken())
    consumer.subscribe("t")
    with pytest.raises(errors.Closed, match="a fault of our own"):
        consumer.poll(20)
    consumer.close()
    assert "a fault of our own" in caplog.text


def test_in_a_fork_a_consumer_is_closed_and_the_parents_goes_on():
    consumer = Consumer(MUST | {"retry.backoff.ms": 1}, transport=Unreachable())
    consumer.subscribe("t")
    assert consumer.poll(0.05) == []
    child = os.fork()
    if child == 0:
        try:
            consumer.poll(0)
        except errors.Closed as error:
            os._exit(0 if "fork" in str(error) else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert consumer.poll(0.05) == []
    consumer.close(0)


def test_misuse_is_told_without_a_server():
    consumer = Consumer(MUST, transport=Unreachable())
    for call in (
        lambda: consumer.poll(0),
        consumer.commit,
        consumer.subscribe,
        lambda: consumer.subscribe([]),
        lambda: consumer.subscribe("a", pattern="b"),
        lambda: consumer.seek(ONE, 0),
        lambda: consumer.pause([ONE]),
        lambda: consumer.position(ONE),
        lambda: consumer.assign([("t", -1)]),
        lambda: consumer.commit({ONE: -1}),
    ):
        with pytest.raises(errors.IllegalState):
            call()
    with pytest.raises(errors.InvalidName):
        consumer.subscribe("no/topic")
    consumer.assign([ONE])
    with pytest.raises(errors.IllegalState):
        consumer.subscribe("t")
    assert consumer.assignment() == {ONE}
    assert consumer.group_metadata() == ("g", "", -1, None)
    consumer.close(0)
    with pytest.raises(errors.Closed):
        consumer.assignment()


# --- the lanes


class Server:
    """Drives one lane of a consumer: what it asks for is asked of the test, and waiting takes no time."""

    def __init__(self, lane: Generator[Any, Any, None]) -> None:
        self._lane = lane
        self._now = 0.0
        self.asked: Request = self._go_on(None, first=True)

    def answer(self, status: int = 200, body: bytes = b"{}", **headers: str) -> Request:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.asked = self._go_on(Answer(status, named, body))
        return self.asked

    def _go_on(self, outcome: Outcome | None, *, first: bool = False) -> Request:
        step = next(self._lane) if first else self._lane.send(Heard(self._now, 0.0, outcome))
        while not isinstance(step, Request):
            assert isinstance(step, Wait)
            self._now = max(self._now, step.until or 0.0)
            step = self._lane.send(Heard(self._now, 0.0, None))
        return step


GONE = (404, b'{"error_code": 40403, "message": "no such consumer instance"}')


def joined() -> tuple[Consumption, Server]:
    """A consumer that has joined as `a`, and is about to subscribe."""
    names = iter("abcdef")
    made = Consumption(ConsumerSettings.of(MUST), lambda: next(names))
    made.known.wanted = Topics(("t",))
    server = Server(made.lanes[0].run())
    assert server.asked.path == "/consumers/g"
    assert server.answer().path == "/consumers/g/instances/a/subscription"
    return made, server


def test_who_became_another_member_while_it_subscribed_subscribes_again():
    made, server = joined()
    made.known.expelled("a", 0.0)
    assert server.answer(204, b"").path == "/consumers/g"
    assert server.answer().path == "/consumers/g/instances/b/subscription"
    assert server.answer(204, b"").path == "/consumers/g/instances/b/heartbeat"
    assert made.known.told == Topics(("t",))


def test_who_is_given_again_what_he_had_behind_a_lost_answer_says_where_he_is():
    """With partitions of his own choice nothing but the offsets tells it; what goes back at once is another log."""
    names = iter("abcdef")
    made = Consumption(ConsumerSettings.of(MUST), lambda: next(names))
    made.known.wanted, made.known.polling = Manual((ONE,)), True
    made.known.held[ONE] = Held(ONE, None, announced=True, stage="kept", expected=5, position=5)
    server = Server(made.lanes[0].run())
    assert server.answer().path == "/consumers/g/instances/a/assignments"
    server.answer(204, b"")
    made.known.received = 6
    reading = Server(made.fetching.run())
    reading.answer(502)  # it may have come, and may come late
    record = b'[{"topic": "t", "partition": 0, "offset": 2, "timestamp": 0, "key": null, "value": null, "headers": []}]'
    assert reading.answer(200, record, lakelog_answer="8").path == "/consumers/g/instances/a/positions"
    assert b'"offset":5' in (reading.asked.body or b"")
    assert made.known.buffer.ready == 0
    reading.answer(204, b"")
    reading.answer(200, record, lakelog_answer="9")
    assert made.known.buffer.ready == 1


def test_what_was_asked_as_a_former_member_says_nothing_of_the_present_one():
    made, server = joined()
    server.answer(204, b"")
    known = made.known
    known.generation, known.polling = 1, True
    reading = Server(made.fetching.run())
    assert reading.asked.path.startswith("/consumers/g/instances/a/records")
    server.answer(*GONE)
    assert server.answer().path == "/consumers/g/instances/b/subscription"
    server.answer(204, b"")
    known.generation = 2
    assert reading.answer(*GONE).path.startswith("/consumers/g/instances/b/records")
    assert (known.member, known.told) == ("b", Topics(("t",)))
