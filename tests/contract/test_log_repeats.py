"""What is stored is answered when it is sent again, whatever the topic would say of it by now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pyarrow as pa
import pytest

from delta_log import Appended, Log, ProducerStamp, Record
from delta_log.model.errors import InvalidRecord, OutOfOrderSequence, SequenceReused
from tests.support.logs import NOW, Place, hold_tables, replace_settings, values_of

OLD = NOW - 900
RECORDS = [Record(b"a" * 500, timestamp=OLD), Record(b"b", timestamp=OLD)]
TIMES = pa.array([OLD * 1000] * 2, pa.timestamp("us", "UTC"))
TABLE = pa.table({"value": pa.array([b"a" * 500, b"b"], pa.binary()), "timestamp": TIMES})


def by_thread(log: Log, sequence: int) -> Appended:
    return log.append("t", RECORDS, producer=ProducerStamp("p", 0, sequence))


def by_task(log: Log, sequence: int) -> Appended:
    return asyncio.run(log.append_async("t", RECORDS, producer=ProducerStamp("p", 0, sequence)))


def at_once(log: Log, sequence: int) -> Appended:
    async def queue_up() -> Appended:
        storing = log.queue_up("t", RECORDS, producer=ProducerStamp("p", 0, sequence))
        assert storing is not None
        return await storing

    return asyncio.run(queue_up())


def by_arrow(log: Log, sequence: int) -> Appended:
    return log.append_arrow("t", TABLE, producer=ProducerStamp("p", 0, sequence))


def too_large(log: Log, place: Place) -> None:
    log.alter_topic("t", {"max.message.bytes": 100})


def too_old(log: Log, place: Place) -> None:
    place.clock.turn(200)


def without_a_key(log: Log, place: Place) -> None:
    log.alter_topic("t", {"cleanup.policy": "compact"})


@pytest.mark.parametrize("send", [by_thread, by_task, at_once, by_arrow])
@pytest.mark.parametrize("change", [too_large, too_old, without_a_key])
def test_a_repeat_is_answered_though_the_topic_would_not_take_it_any_more(
    place: Place, send: Callable[[Log, int], Appended], change: Callable[[Log, Place], None]
):
    log = place.open()
    log.create_topic("t", 1, {"message.timestamp.before.max.ms": 1000})
    log.append("t", [Record(b"first")], producer=ProducerStamp("other", 0, 0))
    first = send(log, 0)
    change(log, place)
    again = send(log, 0)
    assert (again.duplicate, again.offsets()) == (True, first.offsets())
    for sequence in (2, 9):  # what is new is refused by the rules of the topic before those of sequences
        with pytest.raises(InvalidRecord):
            send(log, sequence)
    assert log.offsets("t", 0).end_offset == 3


def test_what_was_never_stored_is_refused_as_before(log: Log):
    log.create_topic("t", 1, {"max.message.bytes": 100})
    for stamp in (None, ProducerStamp("p", 0, 0), ProducerStamp("p", 5, 1)):
        with pytest.raises(InvalidRecord):
            log.append("t", RECORDS, producer=stamp)
    log.append("t", [Record(b"v")], producer=ProducerStamp("p", 0, 0))
    with pytest.raises(InvalidRecord):
        log.append("t", [Record(b"a" * 500)], producer=ProducerStamp("p", 0, 0))
    assert values_of(log, "t") == [b"v"]


def test_a_producer_that_is_forgotten_while_its_repeat_waits_is_refused(place: Place):
    """Else what the topic refuses would be stored as if it were new."""
    log = place.open()
    log.create_topic("t")
    by_thread(log, 0)
    log.alter_topic("t", {"max.message.bytes": 100})
    _, request = log._prepare("t", RECORDS, ProducerStamp("p", 0, 0))
    log._running.writer.alone(lambda: log._running.writer.producers.expire(place.clock() + 1))
    with pytest.raises(InvalidRecord):
        log._running.writer.append(log._running.catalog.live("t"), request)
    assert log.offsets("t", 0).end_offset == 2


def test_what_is_queued_up_at_once_waits_for_its_predecessors(place: Place):
    log = place.open(replace_settings(producer_wait_s=0.05))
    log.create_topic("t")
    assert by_task(log, 0).offsets() == [0, 1]
    with pytest.raises(OutOfOrderSequence):
        at_once(log, 9)

    async def overtaking() -> list[Appended]:
        stamps = [ProducerStamp("p", 0, sequence) for sequence in (4, 2)]
        waiting = [log.queue_up("t", RECORDS, producer=stamp) for stamp in stamps]
        return [await stored for stored in waiting if stored is not None]

    assert [stored.offsets() for stored in asyncio.run(overtaking())] == [[4, 5], [2, 3]]
    assert at_once(log, 0).duplicate
    with pytest.raises(SequenceReused):
        at_once(log, 1)


def test_the_first_numbered_request_is_not_queued_up_at_once(place: Place):
    """Their table is made, or taken over by a new owner, before: that waits for the disk, and a loop must not."""
    log = place.open()
    log.create_topic("t")
    for life in range(2):
        log.append("t", [Record(b"v")])

        async def queue_up(log: Log = log) -> object:
            return log.queue_up("t", RECORDS, producer=ProducerStamp("p", 0, 0))

        assert asyncio.run(queue_up()) is None
        assert by_task(log, 0).duplicate is (life == 1)
        place.close()
        log = place.open()


@pytest.mark.parametrize("tabled", [True, False])
def test_requests_of_many_that_were_journaled_together_are_each_known_after_a_crash(place: Place, tabled: bool):
    """What is remembered of them is one frame, and so are their rows."""
    log = place.open()
    log.create_topic("t")
    names = [f"p{number}" for number in range(6)]

    log.append("t", [Record(b"first")], producer=ProducerStamp("other", 0, 0))
    hold_tables(log)
    first = asyncio.run(send_each(log, names))
    assert log.init_producer("p5").epoch == 3
    if tabled:
        log.flush()
    place.crash()
    log = place.open()
    again = asyncio.run(send_each(log, names[:5]))
    assert [answer.offsets() for answer in again] == [answer.offsets() for answer in first[:5]]
    assert all(answer.duplicate for answer in again)
    assert log.init_producer("p5").epoch == 4
    assert sorted(values_of(log, "t"), key=str) == sorted([b"first", *(name.encode() for name in names)], key=str)


async def send_each(log: Log, names: list[str]) -> list[Appended]:
    sent = (log.append_async("t", [Record(name.encode())], producer=ProducerStamp(name, 2, 0)) for name in names)
    return await asyncio.gather(*sent)
