"""Decisions of groups and records for topics as one unit: with the commits of everybody else, in one line."""

import asyncio
from typing import Any

import pytest

from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.coordinator.durable_state import Asked
from consumer_groups.decisions.commits import Commit, Commitment, decide_commit
from consumer_groups.decisions.membership import Leave, decide_leave
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.errors import StaleGeneration
from delta_log import Appended, LakelogError, Log, Prepared, Record
from delta_log.model.errors import StorageRefused, TopicClosed, TransactionFenced
from tests.support.coordinating import coordinating, join
from tests.support.keyed_rows import live_of
from tests.support.logs import Place, values_of
from tests.support.loops import in_loop

ONE = TopicPartition("t", 0)


async def begun(log: Log, groups: Coordinator, *names: str) -> None:
    for name in names:
        await join(groups, "ann", "t", group=name, auto_commit_enable=False)


def topics(place: Place) -> Log:
    log = place.open()
    log.create_topic("t")
    log.create_topic("dead")
    log.append("t", [Record(b"%d" % number) for number in range(9)])
    return log


def asked(groups: Coordinator, group: str, offset: int, generation: int | None = None) -> Asked:
    command = Commit("ann", {ONE: Commitment(offset)}, generation)
    tending, offsets = groups._tending, groups._offsets
    return Asked(group, lambda known: decide_commit(known, command, tending.cluster, offsets, groups.now_ms), "ann")


async def dead(log: Log, *values: bytes) -> list[Prepared]:
    return [await log.prepare_async("dead", [Record(value) for value in values])]


async def store(groups: Coordinator, asked: list[Asked], appends: list[Prepared]) -> tuple[Appended, ...]:
    return (await groups._durable.do_beside(asked, appends))[1]


async def committed(groups: Coordinator, group: str) -> int | None:
    found = (await groups.committed(group, (ONE,))).reply
    return found[ONE].next_offset if ONE in found else None


@in_loop
async def test_commits_of_several_groups_and_records_are_stored_together(place: Place):
    log = topics(place)
    async with coordinating(log) as groups:
        await begun(log, groups, "g", "h")
        (answer,) = await store(groups, [asked(groups, "g", 3), asked(groups, "h", 5)], await dead(log, b"a", b"b"))
        assert answer.offsets() == [0, 1]
        assert (await committed(groups, "g"), await committed(groups, "h")) == (3, 5)
    place.crash()
    log = place.open()
    async with coordinating(log) as groups:
        assert (await committed(groups, "g"), await committed(groups, "h")) == (3, 5)
        assert values_of(log, "dead") == [b"a", b"b"]


@in_loop
async def test_where_one_group_refuses_nothing_is_stored_of_any(place: Place):
    log = topics(place)
    async with coordinating(log) as groups:
        await begun(log, groups, "g", "h")
        with pytest.raises(StaleGeneration):
            await store(groups, [asked(groups, "g", 3), asked(groups, "h", 5, 999)], await dead(log, b"a"))
        assert (await committed(groups, "g"), await committed(groups, "h")) == (None, None)
        assert log.offsets("dead", 0).end_offset == 0


async def fails(log: Log, groups: Coordinator, expected: type[LakelogError]) -> None:
    """A unit that is not stored takes with it what was decided upon it, and everybody may go on."""
    first = asyncio.ensure_future(store(groups, [asked(groups, "g", 3), asked(groups, "h", 5)], await dead(log, b"a")))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(groups.commit("g", Commit("ann", {ONE: Commitment(4)})))
    found = await asyncio.gather(first, second, return_exceptions=True)
    assert all(isinstance(error, expected) for error in found), found


@in_loop
async def test_what_the_journal_refused_is_taken_back_in_every_group(place: Place):
    log = topics(place)
    async with coordinating(log) as groups:
        await begun(log, groups, "g", "h")
        real = log._running.journal.append

        def refuse(*_: object) -> None:
            raise StorageRefused("the journal", "a test")

        log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
        await fails(log, groups, StorageRefused)
        log._running.journal.append = real  # type: ignore[method-assign]
        assert (await committed(groups, "g"), await committed(groups, "h")) == (None, None)
        await store(groups, [asked(groups, "g", 6)], await dead(log, b"b"))
        assert await committed(groups, "g") == 6
        assert values_of(log, "dead") == [b"b"]


@in_loop
async def test_a_closed_topic_refuses_the_decisions_beside_its_records(place: Place):
    log = topics(place)
    async with coordinating(log) as groups:
        await begun(log, groups, "g", "h")
        appends = await dead(log, b"a")
        live_of(log, "dead").close(TopicClosed("dead", "a test"))
        with pytest.raises(TopicClosed):
            await store(groups, [asked(groups, "g", 3), asked(groups, "h", 5)], appends)
        assert (await committed(groups, "g"), await committed(groups, "h")) == (None, None)
        await groups.commit("g", Commit("ann", {ONE: Commitment(4)}))
        assert await committed(groups, "g") == 4


def refuse_last(*_: object) -> list[Any]:
    raise TransactionFenced("x.1.a", 2)


@pytest.mark.parametrize("kind", ["its last word", "its topic"])
@in_loop
async def test_what_is_decided_upon_a_unit_that_is_refused_is_decided_anew_without_it(place: Place, kind: str):
    """Nobody hears of a refusal of somebody else: not another group, nor a unit, nor who looks at the same group."""
    log, closes = topics(place), kind == "its topic"
    log.create_topic("other")
    async with coordinating(log) as groups:
        await begun(log, groups, "g", "h", "i")
        refused, other = await dead(log, b"a"), [await log.prepare_async("other", [Record(b"b")])]
        if closes:
            live_of(log, "dead").close(TopicClosed("dead", "a test"))
        last_word = None if closes else refuse_last
        first = asyncio.ensure_future(groups._durable.do_beside([asked(groups, "g", 3)], refused, last_word))
        await asyncio.sleep(0)
        behind = [
            groups.commit("h", Commit("ann", {ONE: Commitment(4)})),
            groups.commit("g", Commit("ann", {ONE: Commitment(5)})),
            store(groups, [asked(groups, "i", 6)], other),
            groups.committed("g", (ONE,)),
        ]
        *_, stored, seen = await asyncio.gather(*behind)
        with pytest.raises(TopicClosed if closes else TransactionFenced):
            await first
        assert [await committed(groups, name) for name in "ghi"] == [5, 4, 6]
        assert (stored[0].offsets(), values_of(log, "other"), values_of(log, "dead")) == ([0], [b"b"], [])
        assert ONE not in seen.reply or seen.reply[ONE].next_offset == 5, "what it rested on is not so"


@in_loop
async def test_who_is_refused_upon_a_unit_that_is_refused_is_asked_anew(place: Place):
    """A commit of a generation that was only about to be."""
    log = topics(place)
    async with coordinating(log) as groups:
        await begun(log, groups, "g")
        leaves = Asked(
            "g", lambda known: decide_leave(known, Leave("ann"), groups._tending.cluster, groups.now_ms), "ann"
        )
        first = asyncio.ensure_future(groups._durable.do_beside([leaves], [], refuse_last))
        await asyncio.sleep(0)
        await groups.commit("g", Commit("ann", {ONE: Commitment(4)}))
        with pytest.raises(TransactionFenced):
            await first
        assert await committed(groups, "g") == 4
