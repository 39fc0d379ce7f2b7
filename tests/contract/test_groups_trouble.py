"""Groups while something is wrong below, and passes: nobody loses offsets, partitions or a membership over it."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any
from unittest import mock

import pytest

from consumer_groups.coordinator import durable_state as durable
from consumer_groups.coordinator import group_maintenance as tending
from consumer_groups.coordinator import timers as deadlines
from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.decisions.commits import Commit, Commitment
from consumer_groups.decisions.idle_groups import OFFSETS_RETENTION_MS
from consumer_groups.decisions.membership import Heartbeat
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.errors import UnknownInstance
from delta_log import Log
from delta_log.model.errors import StorageRefused, TopicClosed
from delta_log.runtime.clock import wall_clock_ms
from tests.support.coordinating import SOON_S, HeldJournal, comes_true, coordinating, join, poll, put
from tests.support.logs import Place
from tests.support.loops import in_loop

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def everything(groups: Coordinator) -> set[str]:
    return {repr(record) for record in groups._durable.groups.records()}


def refuse(*_: object) -> Any:
    raise StorageRefused("topics", "a test")


@pytest.mark.parametrize("settle_s", [0.0, 0.2], ids=["inside of what time brings", "before it"])
@in_loop
async def test_nobody_is_expired_by_a_disk_that_lets_nobody_be_answered(log: Log, settle_s: float):
    """Whoever waits for an answer cannot ask again: his session is over only if he is silent once he can."""
    log.create_topic("t")
    put(log, "t", 0, b"a")

    async def lives_on(groups: Coordinator, group: str, slower: int) -> bool:
        session_ms = 400 * slower
        await join(groups, "ann", "t", group=group, session_timeout_ms=session_ms, auto_commit_enable=False)
        await poll(groups, "ann", group=group)
        await asyncio.sleep(settle_s * slower)
        await poll(groups, "ann", group=group)
        with HeldJournal(log):
            committing = asyncio.ensure_future(groups.commit(group, Commit("ann")))
            await asyncio.sleep(2 * session_ms / 1000)
            assert not committing.done()
        await committing
        await asyncio.sleep(session_ms / 2000)
        return (await groups.heartbeat(group, Heartbeat("ann"))).reply.assigned == (ONE,)

    async with coordinating(log) as groups:
        with mock.patch.object(durable, "STUCK_S", 0.1):
            await one_lives_on(lives_on, groups)

        async def nobody_is_there() -> bool:
            return not any(each.members for each in await groups.list_groups())

        await comes_true(nobody_is_there, "the end of who is silent afterwards")


async def one_lives_on(lives_on: Callable[[Coordinator, str, int], Awaitable[bool]], groups: Coordinator) -> None:
    """The second has ten times as long, for a machine that stands still for as long as the first has."""
    for slower in (1, 10):
        with suppress(UnknownInstance):
            if await lives_on(groups, f"g{slower}", slower):
                return
    raise AssertionError("both were taken for dead")


@in_loop
async def test_nobody_is_expired_inside_a_poll_that_cannot_read(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await one_lives_on(partial(lives_on_in_a_poll_that_cannot_read, log), groups)


async def lives_on_in_a_poll_that_cannot_read(log: Log, groups: Coordinator, group: str, slower: int) -> bool:
    await join(groups, "ann", "t", group=group, session_timeout_ms=200 * slower, auto_commit_enable=False)
    go_on, real = threading.Event(), log.read

    def hang(*given: Any, **more: Any) -> Any:
        go_on.wait(60)
        return real(*given, **more)

    with mock.patch.object(log, "read", hang):
        polling = asyncio.ensure_future(poll(groups, "ann", wait_ms=50, group=group))
        await asyncio.sleep(0.6 * slower)
        go_on.set()
        return await polling == {ONE: [b"a"]}


@in_loop
async def test_topics_that_cannot_be_listed_at_a_start_cost_nobody_an_offset_or_a_partition(place: Place):
    """Not even offsets that are as old as those of dead groups, whose retention runs at the start."""
    log = place.open()
    log.create_topic("t", 2)
    put(log, "t", 0, b"a", b"b")
    long_ago = wall_clock_ms() - 2 * OFFSETS_RETENTION_MS
    groups = await Coordinator.open(log, lambda: long_ago, lambda: "x")
    await join(groups, "ann", "t", auto_commit_enable=False)
    await groups.commit("g", Commit("ann", {ONE: Commitment(1)}))
    before = everything(groups)
    await groups.close()
    await asyncio.to_thread(place.crash)
    log = place.open()
    with mock.patch.object(deadlines, "AGAIN_S", 0.05):
        with mock.patch.object(log, "topics", refuse):
            opened = coordinating(log)
            groups = await opened.__aenter__()
            await join(groups, "bob", group="other")
            await asyncio.sleep(0.3)
            assert before <= everything(groups)
            assert (await groups.committed("g", (ONE,))).reply[ONE].next_offset == 1
            assert await poll(groups, "ann") == {ONE: [b"b"]}
        await comes_true(lambda: knows(groups), "the list of topics")
        assert before <= everything(groups)
        await opened.__aexit__(None, None, None)


async def knows(groups: Coordinator) -> bool:
    return not groups._tending.stale


@in_loop
async def test_the_loop_never_waits_for_a_topic_that_is_closed_and_takes_it_up_when_it_can_be_opened(place: Place):
    log = place.open()
    for topic in ("t", "u"):
        log.create_topic(topic)
        put(log, topic, 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", "u", auto_commit_enable=False)
        await groups.commit("g", Commit("ann", {ONE: Commitment(0)}))
    await asyncio.to_thread(place.crash)
    log = place.open()
    loop_thread, asked_by_loop, closed = threading.get_ident(), list[str](), [True]

    def guarded(real: Callable[..., Any]) -> Callable[..., Any]:
        def ask(topic: str, *more: Any) -> Any:
            if topic == "t" and closed[0]:
                if threading.get_ident() == loop_thread:
                    asked_by_loop.append(topic)
                raise TopicClosed(topic, "a test")
            return real(topic, *more)

        return ask

    with (
        mock.patch.object(log, "describe_topic", guarded(log.describe_topic)),
        mock.patch.object(log, "offsets", guarded(log.offsets)),
        mock.patch.object(tending, "_LOOK_AGAIN_MS", 50),
        mock.patch.object(deadlines, "AGAIN_S", 0.05),
    ):
        async with coordinating(log) as groups:
            assert await poll(groups, "ann") == {TopicPartition("u", 0): [b"a"]}
            assert asked_by_loop == []
            closed[0] = False
            began = time.monotonic()
            polled = await poll(groups, "ann", wait_ms=60_000)
            assert polled == {ONE: [b"a"]}
            assert time.monotonic() - began < SOON_S


@pytest.mark.parametrize("step_ms", [3_600_000, -3_600_000], ids=["forward", "back"])
@in_loop
async def test_a_clock_that_is_set_expires_nobody_who_lives_and_keeps_nobody_who_is_dead(log: Log, step_ms: int):
    log.create_topic("t", 2)
    set_by = [0]
    groups = await Coordinator.open(log, lambda: wall_clock_ms() + set_by[0], lambda: "x")

    async def lives_on(groups: Coordinator, group: str, slower: int) -> bool:
        set_by[0] = 0
        await join(groups, "ann", "t", group=group, session_timeout_ms=600 * slower)
        await join(groups, "bob", "t", group=group, session_timeout_ms=600 * slower)
        await asyncio.sleep(0.1 * slower)
        set_by[0] = step_ms
        for _ in range(8):
            await groups.heartbeat(group, Heartbeat("ann"))
            await asyncio.sleep(0.1 * slower)

        async def bob_is_gone() -> bool:
            return (await groups.heartbeat(group, Heartbeat("ann"))).reply.assigned == (ONE, TWO)

        await comes_true(bob_is_gone, "the end of who is silent")
        return True

    try:
        await one_lives_on(lives_on, groups)
    finally:
        await groups.close()


@in_loop
async def test_topics_that_could_not_be_taken_up_as_the_disk_refused_are_and_nothing_of_them_is_lost(log: Log):
    log.create_topic("t")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", "u", auto_offset_reset="earliest")
        assert await poll(groups, "ann") == {}
        log.create_topic("u")
        put(log, "u", 0, b"a")
        journal = log._running.journal
        with mock.patch.object(deadlines, "AGAIN_S", 0.05):
            with mock.patch.object(journal, "append", refuse):
                await groups.topics_changed()
                await asyncio.sleep(0.2)
            await comes_true(lambda: knows(groups), "the new topic")
            assert await poll(groups, "ann") == {TopicPartition("u", 0): [b"a"]}
