"""Dead letters: a record is copied and passed at once, or neither; and then no delivery has it any more."""

import asyncio
from typing import Any
from unittest import mock

import pytest

from consumer_groups.coordinator import dead_letter_writer as lettering
from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.coordinator.dead_letter_writer import GivenUp
from consumer_groups.coordinator.read_records import Room
from consumer_groups.decisions.commits import Commit, Commitment, Seek
from consumer_groups.decisions.dead_lettering import GiveUp, Spot
from consumer_groups.decisions.membership import Leave
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.dead_letter import dead_letter_topics
from consumer_groups.model.errors import NotOpen, PartitionNotOwned, StaleGeneration
from delta_log import Log, Record
from delta_log.model.errors import InvalidRecord, StorageRefused
from tests.support.coordinating import coordinating, join, poll
from tests.support.logs import Place, everything
from tests.support.loops import in_loop

ONE = TopicPartition("t", 0)
DEAD = "g.dlq"


def begin(place: Place, records: int = 5, partitions: int = 1) -> Log:
    log = place.open()
    log.create_topic("t", partitions)
    log.append("t", [Record(b"%d" % number, partition=0, timestamp=1000 + number) for number in range(records)])
    return log


async def ann(groups: Coordinator, name: str = "ann", **options: object) -> None:
    await join(groups, name, "t", **{"auto_commit_enable": False, **options})


async def give_up(groups: Coordinator, *offsets: int, by: str = "ann", **more: Any) -> tuple[GivenUp, ...]:
    reasons = {Spot(ONE, offset): f"bad {offset}" for offset in offsets}
    return (await groups.give_up("g", GiveUp(by, reasons, **more))).reply


async def committed(groups: Coordinator) -> int | None:
    found = (await groups.committed("g", (ONE,))).reply
    return found[ONE].next_offset if ONE in found else None


async def commit(groups: Coordinator, offset: int, by: str = "ann") -> None:
    await groups.commit("g", Commit(by, {ONE: Commitment(offset)}))


def letters(log: Log, topic: str = DEAD) -> list[tuple[int, bytes | None, dict[str, bytes | None]]]:
    """By their origin's offset."""
    if topic not in log.topics():
        return []
    partitions = range(log.describe_topic(topic).partitions)
    records = [record for number in partitions for record in everything(log, topic, number)]
    found = [(dict(record.headers), record.value) for record in records]
    return [(int(said["lakelog.dlq.offset"] or b""), value, said) for said, value in found]


def origins(log: Log) -> list[int]:
    return sorted(offset for offset, _, _ in letters(log))


@in_loop
async def test_a_letter_is_the_record_as_it_was_and_says_where_it_comes_from(place: Place):
    log = place.open()
    log.create_topic("t", 3)
    log.append("t", [Record(b"\xff\x00", b"k", 1234, (("h", b"1"), ("n", None)), 2), Record(None, None, 99, None, 2)])
    async with coordinating(log) as groups:
        await ann(groups)
        await poll(groups, "ann")
        there = TopicPartition("t", 2)
        why = {Spot(there, 0): "no JSON: ä", Spot(there, 1): "null"}
        given_up = (await groups.give_up("g", GiveUp("ann", why))).reply
        there = TopicPartition(DEAD, 2)
        assert given_up == tuple(GivenUp(spot, Spot(there, spot.offset)) for spot in why)
    assert log.describe_topic(DEAD).partitions == 3
    first, second = log.read(DEAD, 2, 0).records()
    assert (first.key, first.value, second.key, second.value) == (b"k", b"\xff\x00", None, None)
    assert first.headers == (
        ("h", b"1"), ("n", None), ("lakelog.dlq.topic", b"t"), ("lakelog.dlq.partition", b"2"),
        ("lakelog.dlq.offset", b"0"), ("lakelog.dlq.timestamp", b"1234"), ("lakelog.dlq.group", b"g"),
        ("lakelog.dlq.attempts", b"1"), ("lakelog.dlq.reason", "no JSON: ä".encode()),
    )  # fmt: skip
    assert dict(second.headers)["lakelog.dlq.timestamp"] == b"99"


@in_loop
async def test_what_is_next_in_line_is_passed_and_what_is_not_is_marked_for_everybody_and_for_good(place: Place):
    log = begin(place, 8)
    async with coordinating(log) as groups:
        await ann(groups)
        await poll(groups, "ann")
        await give_up(groups, 2, 5)
        assert await committed(groups) is None or await committed(groups) == 0
        await give_up(groups, 0)
        assert await committed(groups) == 1
        await give_up(groups, 1)
        assert await committed(groups) == 3, "behind what was marked before"
    await asyncio.to_thread(place.crash)
    log = place.open()
    async with coordinating(log) as groups:
        assert await committed(groups) == 3
        await groups.leave("g", Leave("ann"))
        await ann(groups, "bob")
        seen = [value for _ in range(3) for value in (await poll(groups, "bob")).get(ONE, [])]
        assert seen == [b"3", b"4", b"6", b"7"]
        await groups.seek("g", Seek("bob", {ONE: 4}))
        assert [value for _ in range(3) for value in (await poll(groups, "bob")).get(ONE, [])] == [b"4", b"6", b"7"]
        await commit(groups, 8, "bob")
        await groups.seek("g", Seek("bob", {ONE: 5}))
        assert (await poll(groups, "bob"))[ONE] == [b"5", b"6", b"7"], "a commit that passes it takes the mark away"
    assert origins(log) == [0, 1, 2, 5]


@in_loop
async def test_a_commit_that_a_reader_has_not_come_to_takes_no_mark_away(place: Place):
    log = begin(place)
    async with coordinating(log) as groups:
        await ann(groups)
        assert (await poll(groups, "ann", room=Room(1, 1 << 20)))[ONE] == [b"0"]
        await give_up(groups, 1)
        await give_up(groups, 0)
        assert await committed(groups) == 2
        assert (await poll(groups, "ann", room=Room(1, 1 << 20)))[ONE] == [b"2"]
        await give_up(groups, 3)
        await groups.commit("g", Commit("ann"))
        assert await committed(groups) == 4
        assert (await poll(groups, "ann"))[ONE] == [b"4"]


@in_loop
async def test_what_is_given_up_again_is_not_copied_again(place: Place):
    log = begin(place)
    async with coordinating(log) as groups:
        await ann(groups)
        await poll(groups, "ann")
        await asyncio.gather(*(give_up(groups, 0, 3) for _ in range(3)))
        assert origins(log) == [0, 3]
    await asyncio.to_thread(place.crash)
    log = place.open()
    async with coordinating(log) as groups:
        assert await give_up(groups, 0, 3, 4) == (
            GivenUp(Spot(ONE, 0), None),
            GivenUp(Spot(ONE, 3), None),
            GivenUp(Spot(ONE, 4), Spot(TopicPartition(DEAD, 0), 2)),
        )
        assert origins(log) == [0, 3, 4]
        assert await committed(groups) == 1


@in_loop
async def test_what_is_refused_copies_and_passes_nothing(place: Place):
    log = begin(place)
    async with coordinating(log) as groups:
        await ann(groups)
        await poll(groups, "ann")
        await join(groups, "bob")
        await commit(groups, 2)
        for refused, by, offsets, more in (
            (NotOpen, "ann", (3, 5), {}), (NotOpen, "ann", (1, 3), {}), (PartitionNotOwned, "bob", (3,), {}),
            (StaleGeneration, "ann", (3,), {"generation": 99}),
        ):  # fmt: skip
            with pytest.raises(refused):
                await give_up(groups, *offsets, by=by, **more)
        assert letters(log) == []
        assert await committed(groups) == 2
        assert (await poll(groups, "ann")) == {}
        await groups.seek("g", Seek("ann", {ONE: 0}))
        assert len((await poll(groups, "ann"))[ONE]) == 5


@in_loop
async def test_what_the_journal_refuses_is_neither_copied_nor_passed(place: Place):
    log = begin(place)
    async with coordinating(log) as groups:
        await ann(groups)
        await poll(groups, "ann")
        log.create_topic(DEAD)
        await groups.topics_changed()
        real = log._running.journal.append

        def refuse(*_: object) -> None:
            raise StorageRefused("the journal", "a test")

        log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
        with pytest.raises(StorageRefused):
            await give_up(groups, 0, 3)
        log._running.journal.append = real  # type: ignore[method-assign]
        assert letters(log) == []
        assert not groups._durable.groups.get("g").skips
        await give_up(groups, 3)
        assert origins(log) == [3]


@in_loop
async def test_a_record_that_kills_whoever_reads_it_becomes_a_letter_and_takes_no_other_with_it(place: Place):
    """Every member dies when it is given the third record, having committed nothing of that answer."""
    log = begin(place, 6)
    done: list[bytes | None] = []
    async with coordinating(log) as groups:
        for life in range(20):
            name = f"life {life}"
            await ann(groups, name, max_delivery_attempts=3)
            while given := (await poll(groups, name)).get(ONE):
                if b"2" in given:
                    break
                done += given
                await groups.commit("g", Commit(name))
            await groups.leave("g", Leave(name, failed=bool(given)))
            if not given:
                break
    assert done == [b"0", b"1", b"3", b"4", b"5"]
    ((_, value, said),) = letters(log)
    assert value == b"2"
    assert said["lakelog.dlq.attempts"] == b"3"
    assert said["lakelog.dlq.reason"] == b"delivered 3 times, and never done with"


@in_loop
async def test_a_death_is_counted_over_restarts_of_the_server_and_a_letter_takes_the_count_with_it(place: Place):
    log = begin(place, 6)
    for life in range(3):
        async with coordinating(log) as groups:
            name = f"life {life}"
            await ann(groups, name, max_delivery_attempts=3)
            given = (await poll(groups, name))[ONE]
            assert given == ([b"0"] if life == 2 else [b"0", b"1", b"2", b"3", b"4", b"5"])
            await groups.leave("g", Leave(name, failed=True))
        await asyncio.to_thread(place.crash if life else place.close)
        log = place.open()
    async with coordinating(log) as groups:
        await ann(groups, "last", max_delivery_attempts=3)
        assert (await poll(groups, "last"))[ONE] == [b"1", b"2", b"3", b"4", b"5"], "they only died with it"
        assert origins(log) == [0]
        assert not groups._durable.groups.get("g").attempts


@in_loop
async def test_nothing_is_given_up_where_a_record_may_be_tried_for_ever(place: Place):
    log = begin(place, 2)
    async with coordinating(log) as groups:
        for life in range(12):
            await ann(groups, f"life {life}", max_delivery_attempts=-1)
            assert (await poll(groups, f"life {life}"))[ONE] == [b"0", b"1"]
            await groups.leave("g", Leave(f"life {life}", failed=True))
    assert letters(log) == []


@in_loop
async def test_who_comes_back_or_was_not_reached_did_not_try_in_vain(place: Place):
    log = begin(place, 2)
    async with coordinating(log) as groups:
        await ann(groups, max_delivery_attempts=2)
        for _ in range(5):
            polled = await poll(groups, "ann")
            assert polled[ONE] == [b"0", b"1"]
            answer = groups._durable.groups.get("g").presences["ann"].answer
            groups.answer_lost("g", "ann", answer)
        assert (await poll(groups, "ann"))[ONE] == [b"0", b"1"]
        assert await poll(groups, "ann") == {}
        await groups.leave("g", Leave("ann", for_good=True))
        for name in ("bob", "eve"):
            await ann(groups, name, max_delivery_attempts=2)
            assert (await poll(groups, name))[ONE] == [b"0", b"1"]
            await groups.leave("g", Leave(name))
    assert letters(log) == []


@in_loop
async def test_a_letter_that_its_topic_cannot_take_says_where_it_is_to_be_found(place: Place):
    log = place.open()
    log.create_topic("t")
    log.append("t", [Record(b"x" * 3000, b"k"), Record(b"small")])
    log.create_topic("small", config={"max.message.bytes": 1500})
    async with coordinating(log) as groups:
        await ann(groups, dead_letter_topic="small")
        await poll(groups, "ann")
        await give_up(groups, 0, 1)
    (_, large, said), (_, small, _) = letters(log, "small")
    assert (large, small) == (None, b"small")
    assert (said["lakelog.dlq.offset"], said["lakelog.dlq.left_out"]) == (b"0", b"key, value and headers")


UNFIT: dict[str, dict[str, Any]] = {"compacted": {"cleanup.policy": "compact"}, "tiny": {"max.message.bytes": 200}}


def make_unfit(log: Log, *names: str) -> None:
    for name in names:
        log.create_topic(name, config=UNFIT["compacted"])


@pytest.mark.parametrize("dead", ["compacted", "tiny", "T"])
@in_loop
async def test_a_letter_that_the_named_topic_cannot_take_is_in_that_of_the_group(place: Place, dead: str):
    """Compacted it takes no record without a key, tiny not even the headers, and `T` cannot be made beside `t`."""
    log = begin(place, 3)
    log.append("t", [Record(b"3", b"key", partition=0)])
    if dead in UNFIT:
        log.create_topic(dead, config=UNFIT[dead])
    async with coordinating(log) as groups:
        await ann(groups, dead_letter_topic=dead)
        await poll(groups, "ann")
        given_up = {each.spot.offset: each.letter for each in await give_up(groups, 0, 1, 3)}
        to = dead if dead == "compacted" else DEAD
        assert given_up == {
            0: Spot(TopicPartition(DEAD, 0), 0), 1: Spot(TopicPartition(DEAD, 0), 1),
            3: Spot(TopicPartition(to, 0), 0 if to == dead else 2),
        }  # fmt: skip
        assert [(number, value) for number, value, _ in letters(log)][:2] == [(0, b"0"), (1, b"1")]
        assert await give_up(groups, 0) == (GivenUp(Spot(ONE, 0), None),)
        assert groups._durable.groups.get("g").dead_letter_topics == (dead, DEAD)
    await asyncio.to_thread(place.crash)
    log = place.open()
    async with coordinating(log) as groups:
        await groups.leave("g", Leave("ann"))
        await ann(groups, "bob")
        assert (await poll(groups, "bob"))[ONE] == [b"2"]
        assert groups._durable.groups.get("g").dead_letter_topics == (dead, DEAD)


@pytest.mark.parametrize("dead", ["compacted", "tiny", "T"])
@in_loop
async def test_a_record_that_kills_its_readers_keeps_nobody_whose_topic_cannot_take_it(place: Place, dead: str):
    log = begin(place, 3)
    if dead in UNFIT:
        log.create_topic(dead, config=UNFIT[dead])
    async with coordinating(log) as groups:
        for name in ("bob", "eve"):
            await ann(groups, name, max_delivery_attempts=2, dead_letter_topic=dead)
            assert (await poll(groups, name, room=Room(1, 1 << 20)))[ONE] == [b"0"]
            await groups.leave("g", Leave(name, failed=True))
        await ann(groups, max_delivery_attempts=2, dead_letter_topic=dead)
        assert [each for _ in range(2) for each in (await poll(groups, "ann")).get(ONE, [])] == [b"1", b"2"]
        assert origins(log) == [0]


@in_loop
async def test_what_lies_in_the_next_topic_for_letters_is_not_copied_there_once_more(place: Place):
    log = begin(place)
    log.create_topic("compacted", config=UNFIT["compacted"])
    log.create_topic(DEAD)
    log.append(DEAD, [Record(b"a letter")])
    there = TopicPartition(DEAD, 0)
    async with coordinating(log) as groups:
        await join(groups, "ann", "t", DEAD, auto_commit_enable=False, dead_letter_topic="compacted")
        await poll(groups, "ann")
        given_up = (await groups.give_up("g", GiveUp("ann", {Spot(there, 0): "bad"}))).reply
        assert given_up == (GivenUp(Spot(there, 0), None),)
        assert log.offsets(DEAD, 0).end_offset == 1


@in_loop
async def test_where_no_topic_can_take_a_letter_the_record_stays_and_other_partitions_go_on(place: Place):
    log = begin(place, 3, partitions=2)
    log.append("t", [Record(b"other", partition=1)])
    *_, last = topics = dead_letter_topics("g", "compacted")
    make_unfit(log, *topics)
    with mock.patch.object(lettering, "_AGAIN_MS", 0):
        async with coordinating(log) as groups:
            for name in ("bob", "eve"):
                await ann(groups, name, max_delivery_attempts=2, dead_letter_topic="compacted")
                await groups.seek("g", Seek(name, {TopicPartition("t", 1): 1}))
                assert (await poll(groups, name, room=Room(1, 1 << 20))) == {ONE: [b"0"]}
                await groups.leave("g", Leave(name, failed=True))
            await ann(groups, max_delivery_attempts=2, dead_letter_topic="compacted")
            assert await poll(groups, "ann") == {TopicPartition("t", 1): [b"other"]}
            assert await poll(groups, "ann") == {}
            assert await committed(groups) is None
            with pytest.raises(InvalidRecord):
                await give_up(groups, 0)
            log.alter_topic(last, {"cleanup.policy": "delete"})
            assert (await poll(groups, "ann")) == {ONE: [b"1", b"2"]}
            assert [offset for offset, _, _ in letters(log, last)] == [0]


@in_loop
async def test_what_lies_among_the_dead_letters_is_passed_without_another_copy(place: Place):
    log = begin(place, 3)
    async with coordinating(log) as groups:
        await ann(groups, dead_letter_topic="t")
        await poll(groups, "ann")
        assert await give_up(groups, 0) == (GivenUp(Spot(ONE, 0), None),)
        assert await committed(groups) == 1
    assert log.offsets("t", 0).end_offset == 3


@in_loop
async def test_where_an_operator_has_a_group_begin_marks_are_forgotten(place: Place):
    log = begin(place)
    async with coordinating(log) as groups:
        await ann(groups)
        await poll(groups, "ann")
        await give_up(groups, 2)
        await groups.leave("g", Leave("ann", for_good=True))
        await groups.reset("g", {ONE: "earliest"})
        await ann(groups, "bob")
        assert (await poll(groups, "bob"))[ONE] == [b"0", b"1", b"2", b"3", b"4"]


@in_loop
async def test_a_group_that_no_topic_can_be_named_after_has_letters_all_the_same(place: Place):
    log = begin(place)
    reasons = {Spot(ONE, 0): "bad"}
    async with coordinating(log) as groups:
        for name in ("a b", "a\u00e9b", "__", "x" * 255):
            await join(groups, "ann", "t", group=name)
            await poll(groups, "ann", group=name)
            (given_up,) = (await groups.give_up(name, GiveUp("ann", reasons))).reply
            assert given_up.letter is not None
    made = [each for each in log.topics() if each.endswith(".dlq")]
    assert len(made) == 4
    assert [each[:4] for each in sorted(made)] == ["a_b-", "a_b-", "grou", "xxxx"]


@in_loop
async def test_letters_of_a_root_that_is_in_its_tables_are_there_still(place: Place):
    log = begin(place)
    async with coordinating(log) as groups:
        await ann(groups)
        await poll(groups, "ann")
        await give_up(groups, 0, 3)
    await asyncio.to_thread(place.close)
    log = place.open()
    async with coordinating(log) as groups:
        assert origins(log) == [0, 3]
        assert groups._durable.groups.get("g").skips[log.describe_topic("t").id, 0] == [0, 3]
