"""A poll that wants fetch.min.bytes waits for them: no longer than fetch.max.wait.ms, nor than its own time."""

import asyncio
from typing import Any

import pytest

from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.coordinator.read_records import Room
from consumer_groups.decisions.commits import Seek
from consumer_groups.decisions.polling import Poll
from consumer_groups.model.assignment import TopicPartition
from delta_log import Log
from delta_log.runtime.clock import wall_clock_ms
from tests.support.coordinating import SOON_S, coordinating, given, join, poll, put, waits
from tests.support.loops import in_loop

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
LARGE = b"x" * 10_000
LONG = {"fetch_min_bytes": 15_000, "fetch_max_wait_ms": 60_000}


class Reads:
    """How often the log was read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        whole = Log.read

        def read(log: Log, *asked: Any, **more: Any) -> Any:
            self.count += 1
            return whole(log, *asked, **more)

        monkeypatch.setattr(Log, "read", read)


@in_loop
async def test_a_poll_that_has_enough_is_answered_at_once(log: Log):
    log.create_topic("t", 2)
    put(log, "t", 0, LARGE)
    put(log, "t", 1, LARGE)
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", **LONG)
        assert await asyncio.wait_for(poll(groups, "ann", wait_ms=60_000), SOON_S) == {ONE: [LARGE], TWO: [LARGE]}


@in_loop
async def test_a_poll_is_woken_by_each_append_until_there_is_enough_and_reads_nothing_between(
    log: Log, monkeypatch: pytest.MonkeyPatch
):
    log.create_topic("t", 2)
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", **LONG)
        reads = Reads(monkeypatch)
        waiting = asyncio.ensure_future(poll(groups, "ann", wait_ms=60_000))
        await waits(log, waiting)
        before = reads.count
        await asyncio.sleep(0.2)
        assert reads.count == before, "nothing looks again on a timer"
        await asyncio.to_thread(put, log, "t", 0, b"b")
        await asyncio.to_thread(put, log, "t", 1, LARGE)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await asyncio.to_thread(put, log, "t", 1, LARGE)
        assert await asyncio.wait_for(waiting, SOON_S) == {ONE: [b"a", b"b"], TWO: [LARGE, LARGE]}


@in_loop
async def test_after_fetch_max_wait_a_poll_is_given_what_there_is(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", fetch_min_bytes=15_000, fetch_max_wait_ms=200)
        began = asyncio.get_running_loop().time()
        assert await poll(groups, "ann", wait_ms=60_000) == {ONE: [b"a"]}
        assert 0.15 < asyncio.get_running_loop().time() - began < SOON_S


@in_loop
async def test_what_comes_after_fetch_max_wait_is_given_at_once(log: Log):
    log.create_topic("t")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", fetch_min_bytes=15_000, fetch_max_wait_ms=50)
        waiting = asyncio.ensure_future(poll(groups, "ann", wait_ms=60_000))
        await asyncio.sleep(0.2)
        assert not waiting.done(), "fetch.max.wait.ms ends no poll that has nothing"
        await asyncio.to_thread(put, log, "t", 0, b"a")
        assert await asyncio.wait_for(waiting, SOON_S) == {ONE: [b"a"]}


@in_loop
async def test_a_poll_never_outlasts_its_own_time(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", **LONG)
        assert await asyncio.wait_for(poll(groups, "ann", wait_ms=100), SOON_S) == {ONE: [b"a"]}
        assert await asyncio.wait_for(poll(groups, "ann"), SOON_S) == {}


@in_loop
async def test_a_poll_whose_answer_has_no_more_room_is_answered(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a", b"b", b"c")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", **LONG)
        assert await asyncio.wait_for(poll(groups, "ann", wait_ms=60_000, room=Room(2, 1 << 20)), SOON_S) == {
            ONE: [b"a", b"b"]
        }
        put(log, "t", 0, LARGE)
        polled = await asyncio.wait_for(poll(groups, "ann", wait_ms=60_000, room=Room(1000, 1)), SOON_S)
        assert polled == {ONE: [b"c"]}


@in_loop
async def test_what_was_counted_does_not_count_once_its_reader_sought_elsewhere(log: Log):
    log.create_topic("t")
    put(log, "t", 0, LARGE, b"b")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", **LONG)
        waiting = asyncio.ensure_future(poll(groups, "ann", wait_ms=60_000))
        await asyncio.sleep(0.1)
        await groups.seek("g", Seek("ann", {ONE: 1}))
        await asyncio.to_thread(put, log, "t", 0, b"c")
        await asyncio.sleep(0.2)
        assert not waiting.done()
        await asyncio.to_thread(put, log, "t", 0, LARGE, LARGE)
        assert await asyncio.wait_for(waiting, SOON_S) == {ONE: [b"b", b"c", LARGE, LARGE]}


@in_loop
async def test_a_poll_that_gathers_is_given_what_there_is_when_we_close(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", **LONG)
        waiting = asyncio.ensure_future(poll(groups, "ann", wait_ms=60_000))
        await asyncio.sleep(0.1)
        closing = asyncio.get_running_loop().create_future()
        closing.set_result(None)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        polled = await groups.poll("g", Poll("ann", wall_clock_ms() + 60_000), Room(9, 1 << 20), (closing,))
        assert given(polled) == {ONE: [b"a"]}


@in_loop
async def test_what_is_paused_is_not_given_and_wakes_nobody(log: Log):
    log.create_topic("t", 2)
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        paused = frozenset({ONE, TopicPartition("other", 7)})
        waiting = asyncio.ensure_future(poll(groups, "ann", wait_ms=60_000, paused=paused))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(put, log, "t", 0, b"b")
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await asyncio.to_thread(put, log, "t", 1, b"c")
        assert await asyncio.wait_for(waiting, SOON_S) == {TWO: [b"c"]}
        assert await poll(groups, "ann") == {ONE: [b"a", b"b"]}


@in_loop
async def test_no_clock_that_is_set_back_holds_a_poll(log: Log):
    log.create_topic("t")
    ahead_ms = 0
    groups = await Coordinator.open(log, lambda: wall_clock_ms() + ahead_ms, lambda: "new")
    try:
        await join(groups, "ann", "t")
        until_ms = groups.now_ms + 200
        waiting = asyncio.ensure_future(groups.poll("g", Poll("ann", until_ms), Room(9, 9)))
        await waits(log, waiting)
        ahead_ms = -3_600_000
        assert (await asyncio.wait_for(waiting, SOON_S)).records == ()
    finally:
        await groups.close()


class Lent:
    """A lender that lends one room, and knows whether it is out."""

    def __init__(self) -> None:
        self.out = False

    def take(self) -> Room:
        assert not self.out
        self.out = True
        return Room(1000, 1 << 20)

    def end(self) -> None:
        self.out = False


@in_loop
async def test_who_waits_gives_back_what_is_lent_and_who_is_given_something_keeps_it(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", **LONG)
        lent = Lent()
        waiting = asyncio.ensure_future(groups.poll("g", Poll("ann", groups.now_ms + 60_000), lent))
        await waits(log, waiting)
        assert not lent.out
        await asyncio.to_thread(put, log, "t", 0, LARGE, LARGE)
        assert given(await asyncio.wait_for(waiting, SOON_S)) == {ONE: [b"a", LARGE, LARGE]}
        assert lent.out
