"""A member whose polls keep what is being revoked: it says itself, by a heartbeat, when it is done with that."""

import asyncio
import time

import pytest

from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.decisions.commits import Commit, Commitment, Seek
from consumer_groups.decisions.membership import Heartbeat
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.errors import StaleGeneration
from delta_log import Log
from tests.support.coordinating import SOON_S, coordinating, join, poll, put
from tests.support.loops import in_loop

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


async def beat(groups: Coordinator, member_id: str, *owned: TopicPartition) -> tuple[set[TopicPartition], ...]:
    beaten = (await groups.heartbeat("g", Heartbeat(member_id, owned=frozenset(owned)))).reply
    return set(beaten.assigned), set(beaten.revoking)


@pytest.fixture
def filled(log: Log) -> Log:
    log.create_topic("t", 2)
    put(log, "t", 0, b"a")
    put(log, "t", 1, b"b")
    return log


@in_loop
async def test_what_is_revoked_stays_over_polls_until_a_heartbeat_gives_it_up(filled: Log):
    async with coordinating(filled) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        assert await poll(groups, "ann", keeps=True) == {ONE: [b"a"], TWO: [b"b"]}
        await join(groups, "bob", "t", auto_commit_enable=False)
        put(filled, "t", 0, b"c")
        assert await poll(groups, "ann", keeps=True) == {ONE: [b"c"]}
        assert await poll(groups, "bob", keeps=True) == {}
        assert await beat(groups, "ann", ONE, TWO) == ({ONE}, {TWO})
        await groups.commit("g", Commit("ann", {TWO: Commitment(1)}, keeps=True))  # nothing is open, and it is ann's
        assert await beat(groups, "ann", ONE, TWO) == ({ONE}, {TWO})
        await groups.commit("g", Commit("ann", {TWO: Commitment(0)}, keeps=True))
        assert await beat(groups, "ann", ONE) == ({ONE}, set())
        assert await poll(groups, "bob", keeps=True) == {TWO: [b"b"]}


@in_loop
async def test_a_poll_that_waits_and_keeps_is_no_sign_that_its_member_is_done_and_ends_when_something_is_revoked(
    filled: Log,
):
    async with coordinating(filled) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        await poll(groups, "ann", keeps=True)
        waiting = asyncio.ensure_future(poll(groups, "ann", wait_ms=60_000, keeps=True))
        await asyncio.sleep(0.05)
        began = time.monotonic()
        await join(groups, "bob", "t", auto_commit_enable=False)
        assert await waiting == {}
        assert time.monotonic() - began < SOON_S
        assert await beat(groups, "ann", ONE, TWO) == ({ONE}, {TWO})
        began = time.monotonic()
        await poll(groups, "ann", wait_ms=300, keeps=True)
        assert time.monotonic() - began > 0.25, "what was revoked before does not end it"


@in_loop
async def test_a_poll_that_does_not_keep_gives_up_what_is_revoked(filled: Log):
    async with coordinating(filled) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        await poll(groups, "ann")
        await join(groups, "bob", "t", auto_commit_enable=False)
        await poll(groups, "ann")
        assert await poll(groups, "bob") == {TWO: [b"b"]}


@in_loop
async def test_a_heartbeat_says_since_when_and_who_speaks_of_before_cannot_seek(filled: Log):
    async with coordinating(filled) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        beaten = await groups.heartbeat("g", Heartbeat("ann"))
        assert beaten.reply.since == {ONE: beaten.generation, TWO: beaten.generation}
        before = beaten.generation
        await groups.seek("g", Seek("ann", {TWO: 1}, generation=before))
        await asyncio.to_thread(filled.delete_topic, "t")
        await asyncio.to_thread(filled.create_topic, "t", 2)
        await groups.topics_changed()
        beaten = await groups.heartbeat("g", Heartbeat("ann"))
        assert beaten.reply.since == {ONE: beaten.generation, TWO: beaten.generation}
        with pytest.raises(StaleGeneration):
            await groups.seek("g", Seek("ann", {TWO: 1}, generation=before))
        await groups.seek("g", Seek("ann", {TWO: 0}, generation=beaten.generation))
