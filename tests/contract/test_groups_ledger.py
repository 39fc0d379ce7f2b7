"""What groups keep stays small by itself, answers truly meanwhile, and goes with its topic."""

import asyncio

from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.decisions.commits import Commit, Commitment
from consumer_groups.decisions.membership import Leave
from consumer_groups.model.assignment import TopicPartition
from delta_log import Log, Record
from delta_log.maintenance.compaction.keyed_files import KEPT_FILES, KEPT_ROWS
from tests.support.coordinating import coordinating, join, poll, put
from tests.support.keyed_rows import live_of, stored
from tests.support.logs import Place
from tests.support.loops import in_loop

OFFSETS, GROUPS = "__consumer_offsets", "__consumer_groups"
ONE = TopicPartition("t", 0)
PARTITIONS = 200


def latest(log: Log) -> dict[tuple[str, str, int], int]:
    """As the documented view has it: of each key the row with the largest commit_seq, if it says anything."""
    rows = sorted(stored(log, OFFSETS), key=lambda row: row["commit_seq"])
    newest = {(row["group"], row["topic_id"], row["partition"]): row["offset"] for row in rows}
    return {key: offset for key, offset in newest.items() if offset is not None}


def files(log: Log, name: str) -> int:
    return len(live_of(log, name).table.snapshot.files(-1))


async def committed(groups: Coordinator) -> dict[tuple[str, str, int], int]:
    records = (await groups.describe("g")).reply.committed
    return {("g", each.topic_id, each.partition): each.next_offset for each in records}


@in_loop
async def test_the_table_of_offsets_stays_small_however_many_commits_come_and_its_view_stays_true(place: Place):
    """A commit is a row of each partition, of which the newest counts."""
    log = place.open()
    log.create_topic("t", PARTITIONS)
    log.append("t", [Record(b"x", partition=number) for number in range(PARTITIONS) for _ in range(2)])
    most_rows = most_files = 0
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", auto_commit_enable=False)
        for round_ in range(160):
            offsets = {TopicPartition("t", each): Commitment((each + round_) % 3) for each in range(PARTITIONS)}
            await groups.commit("g", Commit("ann", offsets))
            if round_ % 4 == 0:
                await asyncio.to_thread(log.flush)
                await asyncio.to_thread(log.run_upkeep)
                most_rows = max(most_rows, len(stored(log, OFFSETS)))
                most_files = max(most_files, files(log, OFFSETS))
        await asyncio.to_thread(log.flush)
        assert 160 * PARTITIONS > 3 * KEPT_ROWS
        assert most_rows < 2 * KEPT_ROWS
        assert most_files <= KEPT_FILES + 2
        assert latest(log) == await committed(groups)
        assert len(latest(log)) == PARTITIONS
        before = await committed(groups)
    await asyncio.to_thread(place.crash)
    async with coordinating(place.open()) as groups:
        assert await committed(groups) == before


@in_loop
async def test_the_table_of_groups_stays_small_however_many_members_come_and_go(place: Place):
    log = place.open()
    log.create_topic("t", 4)
    async with coordinating(log) as groups:
        for number in range(120):
            await join(groups, f"m{number}", "t")
            if number > 1:
                await groups.leave("g", Leave(f"m{number - 2}"))
            if number % 5 == 4:
                await asyncio.to_thread(log.flush)
                await asyncio.to_thread(log.run_upkeep)
        assert files(log, GROUPS) <= KEPT_FILES + 2
        known = {repr(record) for record in groups._durable.groups.records()}
        assert len(known) < 40, "nothing is kept of who is gone"
    await asyncio.to_thread(place.crash)
    async with coordinating(place.open()) as groups:
        assert {repr(record) for record in groups._durable.groups.records()} == known


@in_loop
async def test_offsets_go_with_a_topic_that_was_deleted_just_before_a_kill(place: Place):
    """Nobody had told the groups yet; and another topic of the name is there when they look."""
    log = place.open()
    for topic in ("t", "u"):
        log.create_topic(topic)
        put(log, topic, 0, b"a")
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", "u", auto_commit_enable=False)
        await poll(groups, "ann")
        await groups.commit("g", Commit("ann"))
        await asyncio.to_thread(log.delete_topic, "t")
        log.create_topic("t")
        put(log, "t", 0, b"new")
        await asyncio.to_thread(log.delete_topic, "u")
    await asyncio.to_thread(place.crash)
    log = place.open()
    async with coordinating(log) as groups:
        assert (await groups.describe("g")).reply.committed == ()
        assert await poll(groups, "ann") == {ONE: [b"new"]}
        await asyncio.to_thread(log.flush)
        assert latest(log) == {}
