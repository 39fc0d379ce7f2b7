"""Offsets of a group in a transaction, while the group goes on: what the commit moved, nobody is given again.

And where the group went on first, nothing of the transaction is there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.decisions.commits import Commitment
from consumer_groups.decisions.membership import Heartbeat, Leave
from consumer_groups.decisions.transactional_offsets import Moved
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.errors import PartitionNotOwned
from delta_log import Log, Record
from delta_log.model.errors import UnknownTopic
from delta_log.transactions.transaction import Commit
from tests.support.coordinating import HeldJournal, comes_true, coordinating, join, poll, put
from tests.support.logs import Place, values_of
from tests.support.loops import in_loop

ONE = TopicPartition("t", 0)


async def gives_up(groups: Coordinator) -> None:
    """It lives, and its partition moves to somebody else."""
    await groups.heartbeat("g", Heartbeat("ann", owned=frozenset()))


async def leaves(groups: Coordinator) -> None:
    await groups.leave("g", Leave("ann", failed=True))


def committing(log: Log, groups: Coordinator, transaction: str) -> Awaitable[Any]:
    async def store(commit: Commit) -> Any:
        return await groups.commit_with(commit.additions, commit.appends, commit.decide)

    return log.transactions.commit_async(transaction, store)


async def move(log: Log, groups: Coordinator, transaction: str, to: int, **more: Any) -> None:
    moved = await groups.check_moved(Moved("g", {ONE: Commitment(to)}, **more))
    await asyncio.to_thread(log.transactions.add, transaction, moved)


@pytest.mark.parametrize("first", ["commit", "going", "neither"])
@pytest.mark.parametrize("goes", [gives_up, leaves])
@in_loop
async def test_a_commit_that_meets_a_rebalance_has_moved_its_offsets_or_stored_nothing(
    place: Place, goes: Callable[[Coordinator], Awaitable[None]], first: str
):
    log = place.open()
    log.create_topic("t")
    log.create_topic("u")
    values = [b"%d" % number for number in range(4)]
    put(log, "t", 0, *values)
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        generation = (await groups.describe("g")).generation
        copied = (await poll(groups, "ann"))[ONE]
        begun = await asyncio.to_thread(log.transactions.begin, "x")
        records = [Record(value) for value in copied]
        await asyncio.to_thread(log.transactions.append, begun.id, "u", records)
        await move(log, groups, begun.id, len(copied), member_id="ann", generation=generation)
        await join(groups, "abe", "t", auto_commit_enable=False)  # before ann, who is to give it what she has

        async def under_way() -> bool:
            return groups._durable._under_way > 0

        steps = {"commit": lambda: committing(log, groups, begun.id), "going": lambda: goes(groups)}
        order = sorted(steps, key=lambda name: name != first)
        tasks: dict[str, asyncio.Future[Any]] = {}
        with HeldJournal(log):
            for name in order:
                tasks[name] = asyncio.ensure_future(steps[name]())
                if name == first:
                    await comes_true(under_way, "that the first is on its way to the journal")
        await tasks["going"]
        (outcome,) = await asyncio.gather(tasks["commit"], return_exceptions=True)
        left = (await poll(groups, "abe")).get(ONE, [])
        assert sorted([*values_of(log, "u", 0), *left]) == values
        if first != "neither":
            assert isinstance(outcome, PartitionNotOwned) == (first == "going"), outcome
        stored = not isinstance(outcome, BaseException)
        assert log.transactions.describe(begun.id).state == ("committed" if stored else "aborted")


@pytest.mark.parametrize(("member_id", "refused"), [(None, UnknownTopic), ("ann", PartitionNotOwned)])
@in_loop
async def test_offsets_are_of_the_topic_that_was_there_and_not_of_the_next_of_its_name(
    place: Place, member_id: str | None, refused: type[Exception]
):
    log = place.open()
    log.create_topic("t")
    log.create_topic("u")
    put(log, "t", 0, b"a", b"b", b"c")
    async with coordinating(log) as groups:
        if member_id is not None:
            await join(groups, member_id, "t", auto_commit_enable=False)
        begun = await asyncio.to_thread(log.transactions.begin, "x")
        await asyncio.to_thread(log.transactions.append, begun.id, "u", [Record(b"copy")])
        await move(log, groups, begun.id, 3, member_id=member_id)
        await asyncio.to_thread(log.delete_topic, "t")
        await asyncio.to_thread(log.create_topic, "t")
        put(log, "t", 0, b"1", b"2", b"3", b"4")
        await groups.topics_changed()
        for _ in range(2):
            with pytest.raises(refused):
                await committing(log, groups, begun.id)
        assert log.transactions.describe(begun.id).state == "aborted"
        assert values_of(log, "u", 0) == []
        if member_id is None:
            await join(groups, "ann", "t", auto_commit_enable=False)
        assert await poll(groups, "ann") == {ONE: [b"1", b"2", b"3", b"4"]}


@in_loop
async def test_what_is_added_of_the_next_topic_of_a_name_counts(place: Place):
    log = place.open()
    log.create_topic("t")
    put(log, "t", 0, b"a", b"b", b"c")
    async with coordinating(log) as groups:
        begun = await asyncio.to_thread(log.transactions.begin, "x")
        await move(log, groups, begun.id, 3)
        await asyncio.to_thread(log.delete_topic, "t")
        await asyncio.to_thread(log.create_topic, "t")
        put(log, "t", 0, b"1", b"2")
        await groups.topics_changed()
        await move(log, groups, begun.id, 1)
        await committing(log, groups, begun.id)
        await join(groups, "ann", "t", auto_commit_enable=False)
        assert await poll(groups, "ann") == {ONE: [b"2"]}
