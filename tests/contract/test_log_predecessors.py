"""Requests of one producer overtake each other on their way: each is stored once, and in the producer's order.

It is long, as threads, tasks and both are each tried with every way that waiting can end.
"""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_log import Appended, Log, ProducerStamp, Record
from delta_log.append.early_requests import MOST_PARKED
from delta_log.model.errors import (
    Closed,
    OutcomeUnknown,
    OutOfOrderSequence,
    SequenceReused,
    StaleProducerEpoch,
    StorageRefused,
    UnknownTopic,
)
from tests.support.logs import Place, eventually, replace_settings, values_of

#: Nobody in these tests may wait so long: who is not woken in time is not woken at all.
PATIENT = replace_settings(producer_wait_s=100.0)
BRIEF = replace_settings(producer_wait_s=0.05)
SOON_S = 40
#: For what has to come before somebody gives up waiting: the second, where the machine stood still for all of that.
TRIES_S = (0.5, 20.0)


def records(sequence: int, count: int = 2) -> list[Record]:
    return [Record(b"%d" % i) for i in range(sequence, sequence + count)]


def send(log: Log, sequence: int, count: int = 2, *, epoch: int = 0, name: str = "p", topic: str = "t") -> Appended:
    return log.append(topic, records(sequence, count), producer=ProducerStamp(name, epoch, sequence))


def send_from_a_task(log: Log, sequence: int, count: int = 2, **who: object) -> Appended:
    return asyncio.run(send_async(log, sequence, count, **who))  # type: ignore[arg-type]


async def send_async(
    log: Log, sequence: int, count: int = 2, *, epoch: int = 0, name: str = "p", topic: str = "t"
) -> Appended:
    return await log.append_async(topic, records(sequence, count), producer=ProducerStamp(name, epoch, sequence))


def parked(log: Log) -> int:
    return sum(map(len, log._running.writer.parking._of.values()))


def wait_until_parked(log: Log, early: Future[Appended]) -> None:
    """Or told in vain, where its time was over meanwhile."""
    eventually(lambda: parked(log) == 1 or early.done())


def stored(log: Log, topic: str = "t") -> list[bytes | None]:
    return values_of(log, topic)


def numbers(count: int) -> list[bytes]:
    return [b"%d" % i for i in range(count)]


@pytest.fixture
def log(place: Place) -> Log:
    log = place.open(PATIENT)
    log.create_topic("t")
    log.create_topic("u")
    return log


@pytest.fixture
def crowd() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as pool:
        yield pool


@pytest.fixture(params=[send, send_from_a_task], ids=["threads", "tasks"])
def sender(request: pytest.FixtureRequest) -> Callable[..., Appended]:
    return request.param  # type: ignore[no-any-return]


@dataclass
class Gate:
    """Holds the journal in the middle of a write, and can have it fail there."""

    inside: threading.Event
    go_on: threading.Event
    error: BaseException | None = None


@contextmanager
def held_journal(log: Log) -> Iterator[Gate]:
    real = log._running.journal.append
    gate = Gate(threading.Event(), threading.Event())

    def append(frames: object, payloads: object) -> object:
        gate.inside.set()
        assert gate.go_on.wait(SOON_S)
        if gate.error is not None:
            raise gate.error
        return real(frames, payloads)  # type: ignore[arg-type]

    log._running.journal.append = append  # type: ignore[method-assign, assignment]
    try:
        yield gate
    finally:
        gate.go_on.set()
        log._running.journal.append = real  # type: ignore[method-assign]


def test_a_request_that_came_too_early_is_stored_behind_its_predecessor(
    log: Log, crowd: ThreadPoolExecutor, sender: Callable[..., Appended]
):
    early = crowd.submit(sender, log, 2)
    eventually(lambda: parked(log) == 1)
    assert sender(log, 0).offsets() == [0, 1]
    assert early.result(SOON_S).offsets() == [2, 3]
    assert (stored(log), parked(log)) == (numbers(4), 0)


def test_arrow_waits_as_records_do(log: Log, crowd: ThreadPoolExecutor):
    def table(first: int) -> pa.Table:
        return pa.table({"value": pa.array([b"%d" % first])})

    third = crowd.submit(log.append_arrow, "t", table(2), producer=ProducerStamp("p", 0, 2))
    second = crowd.submit(lambda: asyncio.run(log.append_arrow_async("t", table(1), producer=ProducerStamp("p", 0, 1))))
    eventually(lambda: parked(log) == 2)
    send(log, 0, 1)
    assert [done.result(SOON_S).offsets() for done in (second, third)] == [[1], [2]]
    assert stored(log) == numbers(3)


def test_the_latest_of_five_in_reverse_order_set_all_free(
    log: Log, crowd: ThreadPoolExecutor, sender: Callable[..., Appended]
):
    waiting = []
    for place in range(MOST_PARKED, 0, -1):
        waiting.append(crowd.submit(sender, log, place * 2))
        eventually(lambda: parked(log) == len(waiting))
    sender(log, 0)
    assert [done.result(SOON_S).offsets()[0] for done in waiting] == [8, 6, 4, 2]
    assert stored(log) == numbers(10)


def test_one_more_than_four_is_refused_at_once(log: Log, crowd: ThreadPoolExecutor, sender: Callable[..., Appended]):
    waiting = [crowd.submit(sender, log, place * 2) for place in range(1, MOST_PARKED + 1)]
    eventually(lambda: parked(log) == MOST_PARKED)
    with pytest.raises(OutOfOrderSequence) as refused:
        sender(log, 2 * MOST_PARKED + 2)
    assert (refused.value.expected, refused.value.received) == (0, 2 * MOST_PARKED + 2)
    others = [crowd.submit(sender, log, 2, name="q"), crowd.submit(sender, log, 2, topic="u")]
    eventually(lambda: parked(log) == MOST_PARKED + 2)
    for who in ({}, {"name": "q"}, {"topic": "u"}):
        sender(log, 0, **who)
    assert all(not done.result(SOON_S).duplicate for done in [*waiting, *others])
    assert sender(log, 2 * MOST_PARKED + 2).offsets()[1] == log.offsets("t", 0).end_offset - 1


def test_who_waited_in_vain_is_told_what_is_expected_by_then(place: Place, sender: Callable[..., Appended]):
    log = place.open(BRIEF)
    log.create_topic("t")
    for expected in (0, 2):
        began = time.monotonic()
        with pytest.raises(OutOfOrderSequence) as refused:
            sender(log, 10)
        assert time.monotonic() - began >= 0.05
        assert (refused.value.expected, refused.value.received) == (expected, 10)
        assert log.offsets("t", 0).end_offset == expected
        sender(log, expected)
    assert (stored(log), parked(log)) == (numbers(4), 0)


def test_a_predecessor_of_a_predecessor_changes_what_is_expected(place: Place, crowd: ThreadPoolExecutor):
    for wait_s in TRIES_S:
        log = place.open(replace_settings(producer_wait_s=wait_s))
        topic = log.create_topic(f"t{wait_s}").name
        early = crowd.submit(send, log, 10, topic=topic)
        wait_until_parked(log, early)
        send(log, 0, topic=topic)
        refused = early.exception(SOON_S)
        assert isinstance(refused, OutOfOrderSequence)
        assert refused.received == 10
        place.close()
        if refused.expected == 2:
            return
    pytest.fail("who waited was not told of its predecessor's predecessor")


def test_without_patience_nobody_waits(place: Place, sender: Callable[..., Appended]):
    log = place.open(replace_settings(producer_wait_s=0.0))
    log.create_topic("t")
    with pytest.raises(OutOfOrderSequence):
        sender(log, 2)


def test_who_waits_is_in_nobodys_way(log: Log, crowd: ThreadPoolExecutor, sender: Callable[..., Appended]):
    early = crowd.submit(sender, log, 2)
    eventually(lambda: parked(log) == 1)
    log.append("t", [Record(b"plain")])
    sender(log, 0, name="q")
    log.add_partitions("u", 2)
    log.flush()
    assert not early.done()
    sender(log, 0)
    early.result(SOON_S)


def test_a_follower_in_front_of_its_predecessor_in_one_group_is_stored_after_it(
    log: Log, crowd: ThreadPoolExecutor, sender: Callable[..., Appended]
):
    turns = log._running.writer.turns
    with held_journal(log) as gate:
        leader = crowd.submit(log.append, "u", [Record(b"leads")])
        assert gate.inside.wait(SOON_S)
        both: list[Future[Appended]] = []
        for sequence in (2, 0):
            both.append(crowd.submit(sender, log, sequence))
            eventually(lambda: len(turns._queue) + parked(log) == len(both))
        gate.go_on.set()
        assert [done.result(SOON_S).offsets() for done in both] == [[2, 3], [0, 1]]
        leader.result(SOON_S)
    assert stored(log) == numbers(4)


def test_who_waits_for_a_predecessor_that_the_journal_refuses_waits_on(
    log: Log, crowd: ThreadPoolExecutor, sender: Callable[..., Appended]
):
    early = crowd.submit(sender, log, 2)
    eventually(lambda: parked(log) == 1)
    with held_journal(log) as gate:
        gate.error = StorageRefused("the journal", "a test")
        gate.go_on.set()
        with pytest.raises(StorageRefused):
            sender(log, 0)
    eventually(lambda: parked(log) == 1)  # also who came to the queue, as it looked while the predecessor was there
    assert not early.done()
    assert sender(log, 0).offsets() == [0, 1]
    assert early.result(SOON_S).offsets() == [2, 3]


def test_who_came_while_a_predecessor_was_under_way_that_the_journal_refused_waits_for_its_repeat(
    log: Log, crowd: ThreadPoolExecutor, sender: Callable[..., Appended]
):
    with held_journal(log) as gate:
        gate.error = StorageRefused("the journal", "a test")
        first = crowd.submit(sender, log, 0)
        assert gate.inside.wait(SOON_S)
        early = crowd.submit(sender, log, 2)
        eventually(lambda: len(log._running.writer.turns._queue) == 1)
        gate.go_on.set()
        assert isinstance(first.exception(SOON_S), StorageRefused)
        eventually(lambda: parked(log) == 1)
    sender(log, 0)
    assert early.result(SOON_S).offsets() == [2, 3]
    assert stored(log) == numbers(4)


def test_when_the_writer_loses_track_those_that_wait_are_told_when_their_time_is_over(
    place: Place, crowd: ThreadPoolExecutor, sender: Callable[..., Appended]
):
    for wait_s in TRIES_S:
        log = place.open(replace_settings(producer_wait_s=wait_s))
        topic = log.create_topic(f"t{wait_s}").name
        early = crowd.submit(sender, log, 2, topic=topic)
        wait_until_parked(log, early)
        with held_journal(log) as gate:
            gate.error = RuntimeError("a test")
            gate.go_on.set()
            with pytest.raises(OutcomeUnknown):
                sender(log, 0, topic=topic)
        told = early.exception(SOON_S)
        place.crash()
        if not isinstance(told, OutOfOrderSequence):
            break
    assert isinstance(told, StorageRefused)


def test_a_new_epoch_ends_the_waiting_at_once(log: Log, crowd: ThreadPoolExecutor, sender: Callable[..., Appended]):
    bumped = crowd.submit(sender, log, 2, epoch=0, name="by a bump")
    replaced = crowd.submit(sender, log, 2, epoch=0, name="by a request elsewhere")
    next_one = crowd.submit(sender, log, 2, epoch=1, name="by a bump")
    eventually(lambda: parked(log) == 3)
    assert log.init_producer("by a bump").epoch == 0
    assert log.init_producer("by a bump").epoch == 1
    send(log, 0, epoch=3, name="by a request elsewhere", topic="u")
    for waited, current in ((bumped, 1), (replaced, 3)):
        refused = waited.exception(SOON_S)
        assert isinstance(refused, StaleProducerEpoch)
        assert (refused.current, refused.received) == (current, 0)
    assert not next_one.done()
    send(log, 0, epoch=1, name="by a bump")
    assert next_one.result(SOON_S).offsets() == [2, 3]


def test_closing_the_log_refuses_those_that_wait(
    place: Place, log: Log, crowd: ThreadPoolExecutor, sender: Callable[..., Appended]
):
    waiting = [crowd.submit(sender, log, place * 2) for place in range(1, 4)]
    eventually(lambda: parked(log) == 3)
    place.close()
    assert all(isinstance(done.exception(SOON_S), Closed) for done in waiting)
    assert parked(log) == 0
    assert stored(place.open(BRIEF)) == []


def test_a_topic_that_is_deleted_meanwhile_is_unknown_then(place: Place, crowd: ThreadPoolExecutor):
    for wait_s in TRIES_S:
        log = place.open(replace_settings(producer_wait_s=wait_s))
        topic = log.create_topic(f"t{wait_s}").name
        early = crowd.submit(send, log, 2, topic=topic)
        wait_until_parked(log, early)
        log.delete_topic(topic)
        log.create_topic(topic)
        send(log, 0, topic=topic)
        told = early.exception(SOON_S)
        assert stored(log, topic) == numbers(2)
        place.close()
        if not isinstance(told, OutOfOrderSequence):
            break
    assert isinstance(told, UnknownTopic)


def test_a_task_that_is_cancelled_while_it_waits_leaves_nothing_behind(log: Log):
    async def work() -> Appended:
        tasks = [asyncio.ensure_future(send_async(log, place * 2)) for place in range(1, MOST_PARKED + 1)]
        while parked(log) < MOST_PARKED:  # noqa: ASYNC110 - filled by another task
            await asyncio.sleep(0.001)
        for task in tasks[1:]:
            task.cancel()
        assert [type(done) for done in await asyncio.gather(*tasks[1:], return_exceptions=True)] == [
            asyncio.CancelledError
        ] * (MOST_PARKED - 1)
        assert parked(log) == 1
        await send_async(log, 0)
        return await tasks[0]

    assert asyncio.run(work()).offsets() == [2, 3]
    assert (stored(log), parked(log), log._running.writer.parking._of) == (numbers(4), 0, {})


def test_a_loop_that_is_gone_while_its_request_waits_keeps_nobody_else_asleep(log: Log, crowd: ThreadPoolExecutor):
    loop = asyncio.new_event_loop()
    task = loop.create_task(send_async(log, 2))
    while not parked(log):
        loop.run_until_complete(asyncio.sleep(0.001))
    loop.close()
    early = crowd.submit(send, log, 2)
    eventually(lambda: parked(log) == 2)
    send(log, 0)
    assert early.result(SOON_S).offsets() == [2, 3]
    task.get_coro().close()  # type: ignore[union-attr]  # as the collector of garbage does it
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    assert parked(log) == 0


def test_a_predecessor_whose_task_was_cancelled_is_stored_and_sets_the_follower_free(
    log: Log, crowd: ThreadPoolExecutor
):
    early = crowd.submit(send, log, 2)
    eventually(lambda: parked(log) == 1)

    async def cancel_one(gate: Gate) -> None:
        task = asyncio.ensure_future(send_async(log, 0))
        while not gate.inside.is_set():  # noqa: ASYNC110 - an event of threads
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.go_on.set()

    with held_journal(log) as gate:
        asyncio.run(cancel_one(gate))
    assert early.result(SOON_S).offsets() == [2, 3]


def test_the_same_early_request_twice_is_stored_once(log: Log, crowd: ThreadPoolExecutor):
    both = [crowd.submit(send, log, 2), crowd.submit(send_from_a_task, log, 2)]
    eventually(lambda: parked(log) == 2)
    send(log, 0)
    answers = [done.result(SOON_S) for done in both]
    assert [answer.offsets() for answer in answers] == [[2, 3]] * 2
    assert sorted(answer.duplicate for answer in answers) == [False, True]


def test_other_content_under_a_sequence_that_waited_is_refused(log: Log, crowd: ThreadPoolExecutor):
    early = crowd.submit(send, log, 2)
    eventually(lambda: parked(log) == 1)
    send(log, 0, 4)
    assert isinstance(early.exception(SOON_S), SequenceReused)
    assert stored(log) == numbers(4)


async def in_order(log: Log, requests: Sequence[tuple[int, int]], delays: Sequence[float]) -> list[Appended]:
    async def one(sequence: int, count: int, delay: float) -> Appended:
        await asyncio.sleep(delay)
        return await send_async(log, sequence, count)

    return await asyncio.gather(*(one(*request, delay) for request, delay in zip(requests, delays, strict=True)))


def by_threads(log: Log, requests: Sequence[tuple[int, int]], delays: Sequence[float]) -> list[Appended]:
    def one(request: tuple[int, int], delay: float) -> Appended:
        time.sleep(delay)
        return send(log, *request)

    with ThreadPoolExecutor(len(requests)) as pool:
        return list(pool.map(one, requests, delays))


def by_tasks(log: Log, requests: Sequence[tuple[int, int]], delays: Sequence[float]) -> list[Appended]:
    return asyncio.run(in_order(log, requests, delays))


def by_both(log: Log, requests: Sequence[tuple[int, int]], delays: Sequence[float]) -> list[Appended]:
    with ThreadPoolExecutor(1) as pool:
        by_others = pool.submit(by_tasks, log, requests[2:], delays[2:])
        return by_threads(log, requests[:2], delays[:2]) + by_others.result(SOON_S)


@pytest.mark.parametrize("crowd_of", [by_threads, by_tasks, by_both])
@settings(max_examples=40)
@given(
    counts=st.lists(st.integers(1, 4), min_size=MOST_PARKED + 1, max_size=MOST_PARKED + 1),
    order=st.permutations(range(MOST_PARKED + 1)),
    delays=st.lists(st.sampled_from([0.0, 0.0, 0.001, 0.003]), min_size=MOST_PARKED + 1, max_size=MOST_PARKED + 1),
)
def test_five_requests_in_any_order_are_stored_once_and_in_their_order(
    crowd_of: Callable[..., list[Appended]], counts: list[int], order: list[int], delays: list[float]
):
    sequences = [sum(counts[:place]) for place in range(len(counts))]
    requests = [(sequences[place], counts[place]) for place in order]
    with Log.open("memory://", settings=PATIENT) as log:
        log.create_topic("t")
        first = crowd_of(log, requests, delays)
        again = crowd_of(log, requests, delays)
        assert stored(log) == numbers(sum(counts))
        assert parked(log) == 0
    assert not any(answer.duplicate for answer in first)
    assert all(answer.duplicate for answer in again)
    for (sequence, count), one, other in zip(requests, first, again, strict=True):
        assert one.offsets() == other.offsets() == list(range(sequence, sequence + count))


async def send_until_stored(log: Log, name: str, sequence: int) -> None:
    values = [Record(f"{name} {sequence + i}".encode()) for i in range(2)]
    while True:
        try:
            await log.append_async("t", values, producer=ProducerStamp(name, 0, sequence))
            return
        except (StorageRefused, OutOfOrderSequence):
            await asyncio.sleep(0)


async def produce(log: Log, name: str, requests: int) -> None:
    """Five requests on their way at once, in any order."""
    chance = random.Random(name)
    for start in range(0, requests, MOST_PARKED + 1):
        five = [2 * place for place in range(start, start + MOST_PARKED + 1)]
        chance.shuffle(five)
        await asyncio.gather(*(send_until_stored(log, name, sequence) for sequence in five))


def test_producers_that_repeat_what_a_failing_journal_refused_lose_and_double_nothing(place: Place):
    log = place.open(replace_settings(producer_wait_s=0.2))
    log.create_topic("t")
    real, chance = log._running.journal.append, random.Random(7)

    def append(frames: object, payloads: object) -> object:
        if chance.random() < 0.15:
            raise StorageRefused("the journal", "a test")
        return real(frames, payloads)  # type: ignore[arg-type]

    log._running.journal.append = append  # type: ignore[method-assign, assignment]
    names = [f"producer{number}" for number in range(6)]

    async def produce_all() -> None:
        await asyncio.gather(*(produce(log, name, 30) for name in names))

    asyncio.run(produce_all())
    log._running.journal.append = real  # type: ignore[method-assign]
    found = [(value or b"").decode() for value in stored(log)]
    for name in names:
        assert [value for value in found if value.startswith(name)] == [f"{name} {i}" for i in range(60)]
    assert parked(log) == 0
