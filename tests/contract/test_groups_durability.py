"""What a group was told is so after any end of the process, and what failed never was."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from deltalake import DeltaTable

from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.decisions.commits import Commit, Commitment, Seek
from consumer_groups.decisions.membership import Join, Leave
from consumer_groups.decisions.polling import Poll
from consumer_groups.decisions.subscription import Subscribe
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.errors import DeliveryForgotten, NameTaken, UnknownInstance
from consumer_groups.model.options import Options
from consumer_groups.state.invariants import check_invariants
from consumer_groups.state.state import Groups
from delta_log import Log
from delta_log.model.errors import LakelogError, StorageRefused, TopicClosed
from delta_log.model.store_location import options_of
from tests.support.coordinating import ROOM, SOON_S, coordinating, join, poll, put
from tests.support.keyed_rows import stored
from tests.support.logs import Place
from tests.support.loops import in_loop

ONE = TopicPartition("t", 0)


def everything(coordinator: Coordinator) -> set[str]:
    return {repr(record) for record in state(coordinator).records()}


def commit_seq(row: dict[str, Any]) -> int:
    return row["commit_seq"]


def state(coordinator: Coordinator) -> Groups:
    return coordinator._durable.groups


class Syncs:
    """Counts what is written to the journal; refuses while it is told to."""

    def __init__(self, log: Log) -> None:
        self.count = 0
        self.refusing = False
        self.go_on = threading.Event()
        self.go_on.set()
        self._real = log._running.journal.append
        log._running.journal.append = self  # type: ignore[method-assign, assignment]

    def __call__(self, frames: object, payloads: object) -> object:
        self.count += 1
        assert self.go_on.wait(SOON_S)
        if self.refusing:
            raise StorageRefused("the journal", "a test")
        return self._real(frames, payloads)  # type: ignore[arg-type]


@pytest.mark.parametrize("end", [Place.close, Place.crash], ids=["close", "crash"])
@in_loop
async def test_a_restarted_server_knows_every_member_generation_commit_and_position(
    place: Place, end: Callable[[Place], None]
):
    log = place.open()
    log.create_topic("t", 2)
    put(log, "t", 0, b"a", b"b", b"c")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_offset_reset="latest")
        await join(groups, "bob", "t")
        assert await poll(groups, "ann") == {}
        await groups.commit("g", Commit("bob", {TopicPartition("t", 1): Commitment(0, "tea")}))
        await groups.leave("g", Leave("bob", for_good=True))
        await groups.seek("g", Seek("ann", {TopicPartition("t", 1): 0}))
        before, described = everything(groups), (await groups.describe("g")).reply
    await asyncio.to_thread(end, place)
    log = place.open()
    put(log, "t", 0, b"d")
    async with coordinating(log) as groups:
        assert everything(groups) == before
        assert (await groups.describe("g")).reply == described
        check_invariants(state(groups).get("g"))
        assert await poll(groups, "ann") == {ONE: [b"d"]}
        with pytest.raises(UnknownInstance):
            await poll(groups, "bob")
        with pytest.raises(NameTaken):
            await groups.join("g", Join("ann", Options()))


@in_loop
async def test_fifty_members_that_commit_at_once_share_syncs(log: Log):
    log.create_topic("t", 50)
    for partition in range(50):
        put(log, "t", partition, b"a")
    async with coordinating(log) as groups:
        names = [f"m{number:02}" for number in range(50)]
        await asyncio.gather(*(join(groups, name, "t", auto_commit_enable=False) for name in names))
        owned = {name: (await groups.assignment("g", name)).reply[0] for name in names}
        await groups.commit("g", Commit("m00", {owned["m00"]: Commitment(0)}))
        syncs = Syncs(log)
        syncs.go_on.clear()
        commits = [asyncio.ensure_future(groups.commit("g", Commit(n, {owned[n]: Commitment(1)}))) for n in names]
        for _ in range(50):  # each asks in its first steps, and all of them while the first sync is under way
            await asyncio.sleep(0)
        syncs.go_on.set()
        await asyncio.gather(*commits)
        assert syncs.count <= 10
        committed = (await groups.committed("g", tuple(owned.values()))).reply
        assert [each.next_offset for each in committed.values()] == [1] * 50


@in_loop
async def test_what_fails_is_taken_back_with_all_that_was_decided_upon_it(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a", b"b")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        await groups.commit("g", Commit("ann", {ONE: Commitment(1)}))
        before, syncs = everything(groups), Syncs(log)
        syncs.refusing = True
        outcomes = await asyncio.gather(
            groups.commit("g", Commit("ann", {ONE: Commitment(2)})),
            groups.join("g", Join("bob", Options())),
            groups.subscribe("g", Subscribe("bob", ("t",))),
            groups.join("g", Join("bob", Options())),
            groups.committed("g", (ONE,)),
            groups.join("h", Join("cid", Options())),
            return_exceptions=True,
        )
        assert all(isinstance(each, LakelogError) and each.outcome == "not_attempted" for each in outcomes), outcomes
        assert not any(isinstance(each, NameTaken) for each in outcomes)
        assert everything(groups) == before
        check_invariants(state(groups).get("g"))
        syncs.refusing = False
        assert (await groups.committed("g", (ONE,))).reply[ONE].next_offset == 1
        await groups.commit("g", Commit("ann", {ONE: Commitment(2)}))
        await join(groups, "bob", "t")
        assert (await groups.committed("g", (ONE,))).reply[ONE].next_offset == 2


@in_loop
async def test_what_failed_is_not_there_after_a_restart(place: Place):
    log = place.open()
    log.create_topic("t")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        before, syncs = everything(groups), Syncs(log)
        syncs.refusing = True
        with pytest.raises(StorageRefused):
            await groups.join("g", Join("bob", Options()))
    await asyncio.to_thread(place.crash)
    async with coordinating(place.open()) as groups:
        assert everything(groups) == before


@in_loop
async def test_a_caller_that_does_not_wait_changes_nothing(log: Log):
    log.create_topic("t")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        leaving = asyncio.ensure_future(groups.join("g", Join("bob", Options())))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        with pytest.raises(NameTaken):
            await groups.join("g", Join("bob", Options()))


@in_loop
async def test_another_reader_of_delta_sees_the_committed_offsets(log: Log):
    log.create_topic("t", 2)
    put(log, "t", 0, b"a", b"b")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        for offset in (1, 2, 0, 1):
            await groups.commit("g", Commit("ann", {ONE: Commitment(offset, f"at {offset}")}))
            await asyncio.to_thread(log.flush)
        ours = (await groups.committed("g", (ONE,))).reply[ONE]
        if log.location.startswith("memory"):  # no other process reads it, but it has the same files
            rows = stored(log, "__consumer_offsets")
        else:
            location = f"{log.location}/topics/__consumer_offsets"
            rows = DeltaTable(location, storage_options=options_of(log.location)).to_pyarrow_table().to_pylist()
        latest = {(row["group"], row["topic_id"], row["partition"]): row for row in sorted(rows, key=commit_seq)}
        (theirs,) = latest.values()
        assert (theirs["group"], theirs["topic"], theirs["topic_id"]) == ("g", "t", ours.topic_id)
        assert (theirs["offset"], theirs["metadata"], theirs["generation"]) == (1, "at 1", ours.generation)
        assert int(theirs["committed_at"].timestamp() * 1000) in range(
            ours.committed_at_ms - 1, ours.committed_at_ms + 2
        )


@in_loop
async def test_offsets_go_with_their_topic_and_a_new_one_of_the_name_begins_anew(place: Place):
    log = place.open()
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        await poll(groups, "ann")
        await groups.commit("g", Commit("ann"))
        await asyncio.to_thread(log.delete_topic, "t")
        await groups.topics_changed()
        assert (await groups.describe("g")).reply.committed == ()
        log.create_topic("t")
        put(log, "t", 0, b"new")
        await groups.topics_changed()
        assert (await groups.committed("g", (ONE,))).reply == {}
        assert await poll(groups, "ann") == {ONE: [b"new"]}


@in_loop
async def test_a_failure_that_is_known_before_what_is_queued_up_earlier_does_not_take_that_back(log: Log):
    """The first row of a table waits for the table; what was sent before may still be under way when that fails."""
    log.create_topic("t")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        journal, inside, go_on = log._running.journal, threading.Event(), threading.Event()
        real = journal.append

        def wait(*given: Any) -> Any:
            inside.set()
            assert go_on.wait(SOON_S)
            return real(*given)

        def refuse(*_: Any, **__: Any) -> Any:
            go_on.set()
            raise StorageRefused("a table", "a test")

        journal.append = wait  # type: ignore[method-assign]
        first = asyncio.ensure_future(groups.join("g", Join("bob", Options())))
        assert await asyncio.to_thread(inside.wait, SOON_S)
        log._running.catalog.ledger = refuse  # type: ignore[method-assign]
        second = asyncio.ensure_future(groups.commit("g", Commit("ann", {ONE: Commitment(0)})))
        third = asyncio.ensure_future(groups.join("g", Join("cid", Options())))
        outcomes = await asyncio.gather(first, second, third, return_exceptions=True)
        assert not isinstance(outcomes[0], BaseException)
        assert [type(each) for each in outcomes[1:]] == [StorageRefused, StorageRefused]
        members = (await groups.describe("g")).reply.members
        assert [each.member.member_id for each in members] == ["ann", "bob"]


@in_loop
async def test_closing_ends_a_poll_that_waits(log: Log):
    log.create_topic("t")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        waiting = asyncio.ensure_future(poll(groups, "ann", wait_ms=60_000))
        await asyncio.sleep(0.02)
        assert await asyncio.wait_for(groups.close(), SOON_S)
        assert await asyncio.wait_for(waiting, SOON_S) == {}


@in_loop
async def test_a_poll_whose_place_cannot_be_stored_fails_and_the_next_begins_there(log: Log):
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t")
        syncs = Syncs(log)
        syncs.refusing = True
        with pytest.raises(StorageRefused):
            await poll(groups, "ann")
        syncs.refusing = False
        assert await poll(groups, "ann") == {ONE: [b"a"]}


@in_loop
async def test_a_topic_that_cannot_be_asked_keeps_its_offsets_over_a_restart_too(place: Place):
    log = place.open()
    log.create_topic("t")
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        await groups.commit("g", Commit("ann", {ONE: Commitment(1)}))
        before = everything(groups)

    def closed(name: str) -> Any:
        raise TopicClosed(name, "a test")

    await asyncio.to_thread(place.crash)
    log = place.open()
    with mock.patch.object(log, "describe_topic", closed):
        async with coordinating(log) as groups:
            assert everything(groups) == before
            await groups.topics_changed()
            assert everything(groups) == before


@in_loop
async def test_what_another_life_delivered_is_not_committed_unnamed(place: Place):
    """It would be said to be stored, and nothing would be."""
    log = place.open()
    log.create_topic("t", 1)
    put(log, "t", 0, b"a", b"b")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        await poll(groups, "ann")
    await asyncio.to_thread(place.crash)
    async with coordinating(place.open()) as groups:
        with pytest.raises(DeliveryForgotten):
            await groups.commit("g", Commit("ann"))
        assert (await groups.commit("g", Commit("ann", {ONE: Commitment(1)}))).reply == {ONE: 1}
        assert await poll(groups, "ann") == {ONE: [b"b"]}
        assert (await groups.commit("g", Commit("ann"))).reply == {ONE: 2}


@in_loop
async def test_being_held_up_forgets_no_delivery(place: Place):
    log = place.open()
    log.create_topic("t", 1)
    put(log, "t", 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        polled = await groups.poll("g", Poll("ann", 0), ROOM)
        await groups._tending.tick(held_up=True)
        assert (await groups.commit("g", Commit("ann", received=polled.answer))).reply == {ONE: 1}
