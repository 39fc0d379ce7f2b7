"""Members of a group read what they own, commit it, and hand it on."""

import asyncio
import time
from collections.abc import Iterator
from unittest import mock

import pytest

from consumer_groups.coordinator import timers as deadlines
from consumer_groups.coordinator.read_records import Room
from consumer_groups.decisions.commits import Commit, Commitment
from consumer_groups.decisions.membership import Leave
from consumer_groups.decisions.polling import Poll
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.errors import PartitionNotOwned, UnknownInstance
from delta_log import Log
from delta_log.runtime.clock import wall_clock_ms
from tests.support.coordinating import ROOM, SOON_S, comes_true, coordinating, given, join, poll, put
from tests.support.loops import in_loop

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(autouse=True)
def never_held_up() -> Iterator[None]:
    """A machine that stands still for a second gives every member time anew, which is not what is tried here."""
    with mock.patch.object(deadlines, "HELD_UP_S", 60.0):
        yield


@in_loop
async def test_a_member_joins_polls_commits_and_leaves(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a", b"b")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        assert (await groups.assignment("g", "ann")).reply == (ONE,)
        assert await poll(groups, "ann") == {ONE: [b"a", b"b"]}
        assert (await groups.commit("g", Commit("ann"))).reply == {ONE: 2}
        assert (await groups.committed("g", (ONE,))).reply[ONE].next_offset == 2
        assert await poll(groups, "ann") == {}
        await groups.leave("g", Leave("ann"))
        with pytest.raises(UnknownInstance):
            await poll(groups, "ann")


@in_loop
async def test_two_members_share_the_partitions_and_a_leaver_leaves_all_to_the_other(log: Log):
    log.create_topic("t", 2)
    put(log, "t", 0, b"a")
    put(log, "t", 1, b"b")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        await join(groups, "bob", "t")
        assert await poll(groups, "ann") == {ONE: [b"a"]}
        assert await poll(groups, "bob") == {TWO: [b"b"]}
        await groups.leave("g", Leave("bob"))
        put(log, "t", 1, b"c")
        assert await poll(groups, "ann") == {TWO: [b"c"]}


@in_loop
async def test_a_poll_that_waits_is_woken_by_a_record_long_before_its_time(log: Log):
    log.create_topic("t")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        waiting = asyncio.ensure_future(poll(groups, "ann", wait_ms=60_000))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await asyncio.to_thread(put, log, "t", 0, b"a")
        assert await asyncio.wait_for(waiting, SOON_S) == {ONE: [b"a"]}


@in_loop
async def test_a_poll_that_waits_is_woken_when_its_member_is_given_a_partition(log: Log):
    log.create_topic("t")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        await join(groups, "bob", "t")
        assert await poll(groups, "ann") == {}
        waiting = asyncio.ensure_future(poll(groups, "bob", wait_ms=60_000))
        await asyncio.sleep(0.05)
        put(log, "t", 0, b"a")
        await groups.leave("g", Leave("ann"))
        assert await asyncio.wait_for(waiting, SOON_S) == {ONE: [b"a"]}


@in_loop
async def test_a_poll_without_records_ends_at_its_time_and_when_its_client_is_gone(log: Log):
    log.create_topic("t")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        begun = time.monotonic()
        assert await poll(groups, "ann", wait_ms=100) == {}
        assert 0.09 <= time.monotonic() - begun < SOON_S
        gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(groups.poll("g", Poll("ann", wall_clock_ms() + 60_000), ROOM, (gone,)))
        await asyncio.sleep(0.02)
        gone.set_result(None)
        assert given(await asyncio.wait_for(waiting, SOON_S)) == {}


@in_loop
async def test_an_answer_that_was_lost_is_given_again(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        polled = await groups.poll("g", Poll("ann", 0), ROOM)
        groups.answer_lost("g", "ann", polled.answer)
        assert await poll(groups, "ann") == {ONE: [b"a"]}


@in_loop
async def test_one_record_comes_whatever_the_room_and_partitions_take_turns(log: Log):
    log.create_topic("t", 2)
    for partition in (0, 1):
        put(log, "t", partition, b"x" * 1000, b"y" * 1000)
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        seen = [await poll(groups, "ann", room=Room(1000, 1)) for _ in range(4)]
        assert [list(each) for each in seen] == [[ONE], [TWO], [ONE], [TWO]]
        assert all(len(values) == 1 for each in seen for values in each.values())


@in_loop
async def test_the_partitions_of_a_crashed_member_move_soon_after_its_session(log: Log):
    log.create_topic("t", 2)
    put(log, "t", 1, b"b")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        # On a machine that stands still the first session may be over before anything is given.
        for session_ms in (200, 10_000):
            begun, bob = time.monotonic(), f"bob{session_ms}"
            try:
                await join(groups, bob, "t", session_timeout_ms=session_ms)
                given_to_bob = await poll(groups, bob)
                break
            except UnknownInstance:
                continue
        assert given_to_bob == {TWO: [b"b"]}
        polled = await poll(groups, "ann", wait_ms=60_000)
        assert polled == {TWO: [b"b"]}
        assert 0.15 < time.monotonic() - begun < SOON_S
        with pytest.raises(UnknownInstance):
            await groups.commit("g", Commit(bob))


@in_loop
async def test_a_zombie_cannot_commit_what_is_anothers_now(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        for interval_ms in (100, 5_000):  # on a machine that stands still ann may be late for the first already
            group = f"g{interval_ms}"
            await join(groups, "ann", "t", group=group, max_poll_interval_ms=interval_ms, auto_commit_enable=False)
            await join(groups, "bob", "t", group=group)
            if given_to_ann := await poll(groups, "ann", group=group):
                break
        assert given_to_ann == {ONE: [b"a"]}
        assert await poll(groups, "bob", wait_ms=60_000, group=group) == {ONE: [b"a"]}
        await poll(groups, "ann", group=group)
        with pytest.raises(PartitionNotOwned):
            await groups.commit(group, Commit("ann", {ONE: Commitment(1)}))
        assert (await groups.committed(group, (ONE,))).reply == {}


@in_loop
async def test_auto_commit_commits_what_the_member_came_back_from(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_commit_interval_ms=50)
        assert await poll(groups, "ann") == {ONE: [b"a"]}
        await poll(groups, "ann")

        async def committed() -> bool:
            return ONE in (await groups.committed("g", (ONE,))).reply

        await comes_true(committed, "the commit")


@in_loop
async def test_topics_that_come_and_grow_are_read_from_their_beginning(log: Log):
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        waiting = asyncio.ensure_future(poll(groups, "ann", wait_ms=60_000))
        await asyncio.sleep(0.02)
        log.create_topic("t")
        put(log, "t", 0, b"a")
        await groups.topics_changed()
        assert await asyncio.wait_for(waiting, SOON_S) == {ONE: [b"a"]}
        log.add_partitions("t", 2)
        put(log, "t", 1, b"b")
        await groups.topics_changed()
        assert await poll(groups, "ann") == {TWO: [b"b"]}


@in_loop
async def test_by_duration_begins_at_the_first_record_so_late(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_offset_reset="by_duration:P1D")
        expected = log.offset_at("t", 0, wall_clock_ms() - 86_400_000)
        assert await poll(groups, "ann") == ({} if expected is None else {ONE: [b"a"]})


@in_loop
async def test_after_standing_still_every_member_has_a_session_anew(log: Log):
    log.create_topic("t")
    async with coordinating(log) as groups:
        await groups._deadlines.close()
        for session_ms in (300, 3_000):  # a machine that stands still once more may do so for all of the first
            group, over_s = f"g{session_ms}", session_ms / 1000 + 0.05
            await join(groups, "ann", "t", group=group, session_timeout_ms=session_ms)
            await asyncio.sleep(over_s)
            assert await groups._tending.tick(held_up=True)
            try:
                assert (await groups.assignment(group, "ann")).reply == (ONE,)
                break
            except UnknownInstance:
                assert session_ms < 3_000
        await asyncio.sleep(over_s)
        groups._deadlines.touch(group)
        assert await groups._tending.tick()
        with pytest.raises(UnknownInstance):
            await groups.assignment(group, "ann")
