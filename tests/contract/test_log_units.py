"""Units: records for several topics and rows of a ledger, of which all are stored or none."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from delta_log import Appended, Ledger, Limits, Log, Prepared, Record
from delta_log.append.append_unit import EncodedRows
from delta_log.model.errors import (
    InvalidRequest,
    Overloaded,
    PredecessorFailed,
    StorageRefused,
    TopicClosed,
    UnknownTopic,
)
from delta_log.records.idempotence import Producers
from tests.support.keyed_rows import MARKS, TABLES, live_of, mark, reader, state
from tests.support.logs import Place, eventually, everything, hold_tables, replace_settings, values_of

NOTHING: dict[str, list[object]] = {"__marks": [], "__readers": []}
TOPICS = ("t", "u")


@pytest.fixture
def log(place: Place) -> Log:
    return begun(place)


def begun(place: Place, **settings: object) -> Log:
    log = place.open(replace_settings(**settings))
    for topic in TOPICS:
        log.create_topic(topic, 2)
    return log


def prepared(log: Log, *values: bytes, topic: str = "t", partition: int = 0) -> Prepared:
    return log.prepare(topic, [Record(value, partition=partition) for value in values])


def stored(log: Log) -> dict[tuple[str, int], list[bytes | None]]:
    found = {(topic, index): values_of(log, topic, index) for topic in TOPICS for index in range(2)}
    return {place: values for place, values in found.items() if values}


def a_unit(log: Log, name: bytes = b"a") -> list[Prepared]:
    """Over both topics and all of their partitions; twice to the same one."""
    both = log.prepare("t", [Record(name + b"0", partition=0), Record(name + b"1", partition=1)])
    arrow = pa.table({"value": [name + b"%d" % number for number in range(600)]})
    return [
        both,
        prepared(log, name + b"2", topic="u", partition=1),
        prepared(log, name + b"3"),
        log.prepare("u", arrow),
    ]


def refuse(*_: object) -> None:
    raise StorageRefused("the journal", "a test")


def test_a_unit_is_seen_whole_and_each_append_is_answered_for_itself(log: Log):
    ledger = log.open_ledger(TABLES)
    log.append("t", [Record(b"before", partition=0)])
    assert stored(log) == {("t", 0): [b"before"]}
    waiting = a_unit(log)
    assert stored(log) == {("t", 0): [b"before"]}, "what is prepared was seen"
    answers = ledger.append([mark("ann", 1, 1), reader("ann", 1)], waiting)
    assert [answer.offsets()[:2] for answer in answers[:3]] == [[1, 0], [0], [2]]
    assert sorted((given.partition, given.base_offset, given.count) for given in answers[3].ranges) == [
        (0, 0, 300),
        (1, 1, 300),
    ]
    found = stored(log)
    assert found["t", 0] == [b"before", b"a0", b"a3"]
    assert found["t", 1] == [b"a1"]
    assert found["u", 1][0] == b"a2"
    assert state(ledger) == {"__marks": [("ann", 1, 1, "", 0)], "__readers": [("ann", b"", True, 1)]}


def test_a_unit_may_be_of_topics_alone(log: Log):
    (answer,) = log.open_ledger(TABLES).append([], [prepared(log, b"a", b"b")])
    assert answer.offsets() == [0, 1]


def test_units_records_and_rows_share_groups_and_no_offset_is_given_twice(log: Log):
    ledger = log.open_ledger(TABLES)

    async def work() -> list[list[int]]:
        waiting: list[asyncio.Future[object]] = []
        for number in range(50):
            unit = [await log.prepare_async("t", [Record(b"u%d" % number, partition=0)])]
            waiting.append(ledger.queue_up([mark("ann", number, number)], unit))  # type: ignore[arg-type]
            waiting.append(asyncio.ensure_future(log.append_async("t", [Record(b"r%d" % number, partition=0)])))
        found = await asyncio.gather(*waiting)
        return [(each[0] if isinstance(each, tuple) else each).offsets() for each in found]  # type: ignore[attr-defined]

    offsets = [offset for (offset,) in asyncio.run(work())]
    assert sorted(offsets) == list(range(100))
    values = values_of(log, "t", 0)
    assert [values[offset] for offset in offsets] == [b"%s%d" % (kind, n) for n in range(50) for kind in (b"u", b"r")]
    assert len(ledger.load("__marks")) == 50


@pytest.mark.parametrize("how", ["crash", "close"])
@pytest.mark.parametrize("tabled", [(), ("t",), ("__marks",), ("u", "__readers"), ("t", "u", "__marks", "__readers")])
def test_a_unit_is_whole_after_a_restart_whichever_tables_had_it_already(place: Place, tabled: Sequence[str], how: str):
    log = begun(place)
    hold_tables(log)
    ledger = log.open_ledger(TABLES)
    for name in (b"a", b"b"):
        ledger.append([mark("ann", 1, name[0]), reader(name.decode(), 1)], a_unit(log, name))
    for name in tabled:
        log._running.tabler.bring_up(live_of(log, name))
    before, rows = {at: everything(log, *at) for at in stored(log)}, state(ledger)
    for _ in range(2):
        (place.crash if how == "crash" else place.close)()
        log = place.open()
        assert {at: everything(log, *at) for at in stored(log)} == before
        assert state(log.open_ledger(TABLES)) == rows
    assert log.append("t", [Record(b"after", partition=0)]).offsets() == [len(before["t", 0])]


def closed(log: Log) -> type[Exception]:
    live_of(log, "u").close(TopicClosed("u", "a test"))
    return TopicClosed


def closed_ledger(log: Log) -> type[Exception]:
    live_of(log, "__readers").close(TopicClosed("__readers", "a test"))
    return TopicClosed


def deleted(log: Log) -> type[Exception]:
    log.delete_topic("u")
    return UnknownTopic


def born_anew(log: Log) -> type[Exception]:
    log.delete_topic("u")
    log.create_topic("u", 2)
    return UnknownTopic


@pytest.mark.parametrize("trouble", [closed, closed_ledger, deleted, born_anew])
def test_where_one_topic_or_table_refuses_nothing_of_the_unit_is_stored(log: Log, trouble):
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0), reader("ann", 0)])
    before, unit = state(ledger), a_unit(log)
    expected = trouble(log)
    with pytest.raises(expected):
        ledger.append([mark("ann", 1, 1), reader("ann", 1)], unit)
    assert ledger.load("__marks") == before["__marks"]
    assert log.offsets("t", 0).end_offset == 0
    (answer,) = ledger.append([mark("ann", 1, 1)], [prepared(log, b"x")])
    assert answer.offsets() == [0]


def test_where_one_topic_is_full_nothing_of_the_unit_is_stored(place: Place):
    log = begun(place, limits=Limits(topic_bytes=2000))
    hold_tables(log)
    ledger = log.open_ledger(TABLES)
    log.append("u", [Record(b"x" * 1900, partition=0)])
    large = [prepared(log, b"y"), prepared(log, b"z" * 500, topic="u")]
    with pytest.raises(Overloaded):
        ledger.append([mark("ann", 1, 1)], large)

    async def work() -> None:
        with pytest.raises(Overloaded):
            ledger.queue_up([mark("ann", 1, 1)], large)

    asyncio.run(work())
    assert stored(log) == {("u", 0): [b"x" * 1900]}
    assert state(ledger) == NOTHING
    log.flush()
    ledger.append([mark("ann", 1, 1)], large)
    assert stored(log)["t", 0] == [b"y"]


def test_offsets_of_a_unit_that_the_journal_refused_are_given_out_again(log: Log):
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0), reader("ann", 0)])
    before, real = state(ledger), log._running.journal.append
    log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageRefused):
        ledger.append([mark("ann", 1, 1), reader("ann", 1)], a_unit(log))
    log._running.journal.append = real  # type: ignore[method-assign]
    assert (stored(log), state(ledger)) == ({}, before)
    (first, *_) = ledger.append([mark("ann", 1, 1), reader("ann", 1)], a_unit(log))
    assert first.offsets() == [0, 0]


def test_what_was_queued_up_behind_a_unit_that_was_refused_is_not_stored(log: Log):
    """It was decided upon the unit."""
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0)])

    async def work() -> None:
        unit = [await log.prepare_async("u", [Record(b"x")])]
        live_of(log, "u").close(TopicClosed("u", "a test"))
        first = ledger.queue_up([mark("ann", 1, 1)], unit)
        second = ledger.queue_up([mark("ann", 2, 2)])
        found = await asyncio.gather(first, second, return_exceptions=True)
        assert [type(error) for error in found] == [TopicClosed, PredecessorFailed]
        ledger.resume()
        await ledger.queue_up([mark("ann", 3, 3)])

    asyncio.run(work())
    assert [row[1] for row in ledger.load("__marks")] == [0, 3]


def test_a_table_that_takes_nothing_refuses_those_behind_as_well(log: Log):
    """There is nothing to decide anew."""
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0)])

    async def work() -> None:
        live_of(log, "__marks").close(TopicClosed("__marks", "a test"))
        both = [ledger.queue_up([mark("ann", number, number)]) for number in (1, 2)]
        found = await asyncio.gather(*both, return_exceptions=True)
        assert [type(error) for error in found] == [TopicClosed, TopicClosed]

    asyncio.run(work())


def test_the_last_word_knows_the_offsets_and_adds_rows_or_refuses(log: Log):
    ledger = log.open_ledger(TABLES)

    def decide(_: Producers, answers: Sequence[Appended]) -> EncodedRows:
        last = answers[-1].ranges[0].base_offset
        if last >= 2:
            raise InvalidRequest("enough")
        return ledger.encode([mark("said last", 1, last)])

    for number in range(2):
        ledger.append([mark("ann", number, number)], [prepared(log, b"x")], decide=decide)
    with pytest.raises(InvalidRequest):
        ledger.append([mark("ann", 2, 2)], [prepared(log, b"x")], decide=decide)
    assert values_of(log, "t", 0) == [b"x", b"x"]
    assert [row[:3] for row in ledger.load("__marks")] == [("ann", 0, 0), ("ann", 1, 1), ("said last", 1, 1)]


def test_readers_see_either_nothing_of_a_unit_or_what_follows_in_the_tables(place: Place):
    """One journal group is one commit of each table, so no table has a part of its share of a unit."""
    log = begun(place)
    hold_tables(log)
    ledger: Ledger = log.open_ledger([MARKS])
    for number in range(5):
        ledger.append([mark("ann", number, number)], [prepared(log, b"%d" % number, b"%d" % number)])
        live = live_of(log, "t")
        assert [len(group.chunks) for group in live.pending] == [1]
        log._running.tabler.bring_up(live)
    place.crash()
    log = place.open()
    assert len(log.open_ledger([MARKS]).load("__marks")) == 5
    assert values_of(log, "t", 0) == [b"%d" % (number // 2) for number in range(10)]


def test_the_first_unit_of_a_life_waits_for_its_tables_and_its_topics(place: Place):
    log = begun(place)
    log.append("t", [Record(b"x", partition=0)])
    place.close()
    log = place.open()
    ledger = log.open_ledger(TABLES)
    assert not live_of(log, "t").owned

    async def work() -> None:
        with ThreadPoolExecutor(1) as pool:
            unit = await asyncio.get_running_loop().run_in_executor(pool, prepared, log, b"y")
        (answer,) = await ledger.queue_up([mark("ann", 1, 1), reader("ann", 1)], [unit])
        assert answer.offsets() == [1]

    asyncio.run(work())
    eventually(lambda: len(ledger.load("__readers")) == 1)
