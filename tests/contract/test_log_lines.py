"""Requests of one producer that overtake each other on their way to one event loop, and what that costs the others."""

from __future__ import annotations

import asyncio
import threading

import pytest

from delta_log import Appended, Log, ProducerStamp, Record
from delta_log.model.errors import UnknownTopic
from tests.support.logs import Place, replace_settings, values_of

#: Nobody in these tests may wait so long.
PATIENT = replace_settings(producer_wait_s=100.0)
SOON_S = 20


@pytest.fixture
def log(place: Place) -> Log:
    log = place.open(PATIENT)
    log.create_topic("t")
    log.append("t", [Record(b"0")], producer=ProducerStamp("p", 0, 0))
    return log


def queue_up(log: Log, sequence: int) -> asyncio.Future[Appended]:
    storing = log.queue_up("t", [Record(b"%d" % sequence)], producer=ProducerStamp("p", 0, sequence))
    assert storing is not None
    return storing


def parked(log: Log) -> int:
    return sum(map(len, log._running.writer.parking._of.values()))


def test_those_that_overtook_enter_the_queue_right_behind_their_predecessor(log: Log):
    writer, go_on = log._running.writer, threading.Event()

    async def overtaking() -> list[Appended]:
        writer.syncing.submit(go_on.wait, SOON_S)
        waiting = [queue_up(log, sequence) for sequence in (3, 5, 4, 2)]
        assert (len(writer.turns._queue), parked(log)) == (0, 4), "who is too early takes no turn of the writer"
        waiting.append(queue_up(log, 1))
        assert (len(writer.turns._queue), parked(log)) == (5, 0)
        go_on.set()
        return await asyncio.gather(*waiting)

    assert [stored.offsets() for stored in asyncio.run(overtaking())] == [[3], [5], [4], [2], [1]]
    assert values_of(log, "t") == [b"%d" % number for number in range(6)]


def test_who_follows_a_request_that_is_under_way_does_not_wait_for_its_answer(log: Log):
    async def following() -> None:
        go_on = threading.Event()
        log._running.writer.syncing.submit(go_on.wait, SOON_S)
        waiting = [queue_up(log, sequence) for sequence in (1, 2, 3)]
        assert (len(log._running.writer.turns._queue), parked(log)) == (3, 0)
        go_on.set()
        await asyncio.gather(*waiting)

    asyncio.run(following())
    assert log.offsets("t", 0).end_offset == 4


def test_who_is_given_up_while_he_waits_leaves_his_place_to_others_and_is_not_stored(log: Log):
    async def give_up() -> None:
        waiting = queue_up(log, 2)
        assert parked(log) == 1
        waiting.cancel()
        await asyncio.sleep(0)
        assert parked(log) == 0
        await queue_up(log, 1)

    asyncio.run(give_up())
    assert log.offsets("t", 0).end_offset == 2


def test_nobody_waits_in_a_topic_that_takes_nothing(log: Log):
    live = log._running.catalog.live("t")

    async def refused() -> None:
        waiting = queue_up(log, 2)
        log.delete_topic("t")
        late = log._door.queue_up(live, live_request)
        assert parked(log) == 1
        waiting.cancel()
        with pytest.raises(UnknownTopic):
            await late

    _, live_request = log._prepare("t", [Record(b"3")], ProducerStamp("p", 0, 3))
    asyncio.run(refused())


def test_nothing_is_remembered_of_who_was_answered(log: Log):
    async def work() -> None:
        waiting = [queue_up(log, sequence) for sequence in (3, 2, 1, 1, 4)]
        await asyncio.gather(*waiting)
        line = log._door._of_thread.line
        assert (line._following, line._standing, parked(log)) == ({}, {}, 0)

    asyncio.run(work())
