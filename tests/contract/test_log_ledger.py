"""Ledgers: keyed rows that are durable as records are, of which the latest counts.

It is long, as it goes through all of a ledger's life on one stage: rows, restarts, refusals, compactions.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from delta_log import Ledger, LedgerTable, Limits, Log, LogReader, Record
from delta_log.model.errors import Closed, InvalidName, InvalidRequest, TopicClosed, TopicExists
from tests.support.keyed_rows import (
    MARKS,
    READERS,
    TABLES,
    compact,
    live_of,
    mark,
    no_mark,
    no_reader,
    reader,
    state,
    stored,
)
from tests.support.logs import Place, eventually, hold_tables, replace_settings, values_of


@pytest.fixture
def ledger(log: Log) -> Ledger:
    return log.open_ledger(TABLES)


def restarted(place: Place, how: str) -> Ledger:
    (place.crash if how == "crash" else place.close)()
    return place.open().open_ledger(TABLES)


def test_the_latest_row_of_each_key_is_loaded_in_the_order_in_which_they_came(ledger: Ledger):
    ledger.append([mark("ann", 1, 10), mark("bob", 1, 5), mark("ann", 2, 1)])
    ledger.append([mark("ann", 1, 11, "tea")])
    assert ledger.load("__marks") == [("bob", 1, 5, "", 0), ("ann", 2, 1, "", 0), ("ann", 1, 11, "tea", 0)]


def test_of_one_unit_too_the_last_row_of_a_key_counts(ledger: Ledger):
    ledger.append([mark("ann", 1, 10), mark("bob", 1, 5), mark("ann", 1, 9)])
    assert ledger.load("__marks") == [("bob", 1, 5, "", 0), ("ann", 1, 9, "", 0)]


def test_a_row_without_content_takes_its_key_away_until_another_comes(ledger: Ledger):
    ledger.append([mark("ann", 1, 10), mark("bob", 1, 5)])
    ledger.append([no_mark("ann", 1), no_mark("nobody", 3)])
    assert ledger.load("__marks") == [("bob", 1, 5, "", 0)]
    ledger.append([mark("ann", 1, 1)])
    assert ledger.load("__marks") == [("bob", 1, 5, "", 0), ("ann", 1, 1, "", 0)]


def test_what_is_loaded_is_what_was_stored(ledger: Ledger, place: Place):
    rows = [
        reader("", 0, b"", active=False),
        reader("ü\0'\"\n", -(2**63), b"\0\xff", active=True),
        reader("null", 2**63 - 1, None, active=None),
        mark("a" * 10_000, -(2**31), 0, None, 253_402_300_799_999),
        mark("b", 2**31 - 1, None, "", None),
        mark("c", 0, None, None, 1),
    ]
    ledger.append(rows)
    expected = {name: [row for table, row in rows if table == name] for name in ("__marks", "__readers")}
    assert state(ledger) == expected
    assert state(restarted(place, "crash")) == expected
    assert state(restarted(place, "close")) == expected


def test_nothing_is_made_before_the_first_row_comes(place: Place):
    log = place.open()
    ledger = log.open_ledger(TABLES)
    assert state(ledger) == {"__marks": [], "__readers": []}
    ledger.append([])
    assert place.root().store.list("topics") == []
    ledger.append([mark("ann", 1, 1)])
    assert [entry.name for entry in place.root().store.list("topics")] == ["__marks"]
    assert state(ledger) == {"__marks": [("ann", 1, 1, "", 0)], "__readers": []}


@pytest.mark.parametrize("how", ["crash", "close"])
def test_everything_is_there_after_a_restart_and_goes_on(place: Place, how: str):
    ledger = place.open().open_ledger(TABLES)
    for page in range(5):
        ledger.append([mark("ann", page % 2, page), reader("ann", page)])
    before = state(ledger)
    for _ in range(2):
        ledger = restarted(place, how)
        assert state(ledger) == before
    ledger.append([mark("ann", 0, 99), no_mark("ann", 1), no_reader("ann")])
    ledger = restarted(place, how)
    assert state(ledger) == {"__marks": [("ann", 0, 99, "", 0)], "__readers": []}


def test_a_restart_that_nobody_asks_for_the_ledger_keeps_it(place: Place):
    """Its tables say of themselves what they are: whoever starts brings the journal to them."""
    log = place.open()
    hold_tables(log)
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 1, 1), mark("ann", 1, 2), reader("ann", 1)])
    before = state(ledger)
    place.crash()
    place.open()
    place.close()
    assert state(place.open().open_ledger(TABLES)) == before


def test_a_clean_close_leaves_everything_in_the_tables_and_nothing_in_the_journal(place: Place):
    log = place.open()
    ledger = log.open_ledger(TABLES)
    hold_tables(log)
    ledger.append([mark("ann", 1, 1), reader("ann", 1)])
    assert log.close()
    place.log = None
    if place.path is not None:
        assert list((place.path / "journal").glob("*.seg")) == []
    found = place.open()
    assert found.recovery.startswith("journal: 0 segments")
    assert state(found.open_ledger(TABLES)) == {
        "__marks": [("ann", 1, 1, "", 0)],
        "__readers": [("ann", b"", True, 1)],
    }


def test_of_what_waits_for_its_table_only_the_latest_row_of_a_key_gets_there(log: Log, ledger: Ledger):
    hold_tables(log)
    ledger.append([mark("ann", 1, 0)])
    log.flush()
    for page in range(100):
        ledger.append([mark("ann", 1, page), mark("bob", page % 3, page)])
    ledger.append([no_mark("bob", 0)])
    log.flush()
    rows = [(row["reader"], row["book"], row["page"], row["commit_seq"]) for row in stored(log, "__marks")]
    assert rows == [
        ("ann", 1, 0, 0),
        ("bob", 1, 97, 196),
        ("bob", 2, 98, 198),
        ("ann", 1, 99, 199),
        ("bob", 0, None, 201),
    ]


def test_rows_of_memory_and_of_the_journal_alone_are_loaded_alike(place: Place):
    log = place.open(replace_settings(limits=Limits(memory_bytes=0)))
    hold_tables(log)
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 1, 0)])
    ledger.append([mark("ann", 1, 1), reader("ann", 1)])
    assert [chunk.payload for _, chunk in live_of(log, "__marks").pending[0].chunks] == [None]
    assert ledger.load("__marks") == [("ann", 1, 1, "", 0)]
    log.flush()
    assert ledger.load("__marks") == [("ann", 1, 1, "", 0)]


def test_rows_and_records_share_groups_and_neither_disturbs_the_other(place: Place):
    log = place.open()
    log.create_topic("t", 2)
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, -1), reader("ann", 0)])

    async def work() -> None:
        answers = []
        for number in range(200):
            answers.append(log.append_async("t", [Record(b"%d" % number, partition=0)]))
            answers.append(ledger.queue_up([mark("ann", number % 7, number), reader("ann", number)]))
        await asyncio.gather(*answers)

    asyncio.run(work())
    requests = log.statistics().group_requests
    assert requests.count < requests.total, "no two requests shared a group"
    for how in ("", "crash", "close"):
        log, ledger = (log, ledger) if not how else (None, restarted(place, how))
        found = place.log
        assert found is not None
        assert sorted(values_of(found, "t"), key=lambda value: int(value or b"")) == [b"%d" % n for n in range(200)]
        assert ledger.load("__marks") == [("ann", number % 7, number, "", 0) for number in range(193, 200)]
        assert ledger.load("__readers") == [("ann", b"", True, 199)]


def test_the_order_of_calls_is_the_order_of_places(log: Log, ledger: Ledger):
    """From the very first, which has to wait until its table is made."""

    async def work() -> list[int]:
        finished: list[int] = []
        waiting = [ledger.queue_up([mark("ann", number, number)]) for number in range(100)]
        for number, future in enumerate(waiting):
            future.add_done_callback(lambda _, number=number: finished.append(number))
        await asyncio.gather(*waiting)
        return finished

    assert asyncio.run(work()) == list(range(100))
    log.flush()
    assert [(row["commit_seq"], row["page"]) for row in stored(log, "__marks")] == [(n, n) for n in range(100)]


def test_rows_of_one_group_share_a_frame(log: Log, ledger: Ledger):
    hold_tables(log)
    ledger.append([mark("ann", 1, 0), reader("ann", 0)])
    journal, sizes = log._running.journal, []
    real = journal.append

    def count(frames, payloads):
        sizes.append([(frame.topic, frame.base_offset, frame.count) for frame in frames])
        return real(frames, payloads)

    journal.append = count
    turn = log._running.writer.turns

    async def work() -> None:
        async def one(number: int) -> None:
            await ledger.queue_up([mark("ann", number, number), reader("ann", number), mark("bob", number, number)])

        await asyncio.gather(*(one(number) for number in range(50)))

    with ThreadPoolExecutor(1) as pool:
        running = []
        log._running.writer.alone(
            lambda: (running.append(pool.submit(asyncio.run, work())), eventually(lambda: turn.waiting == 50))
        )
        running[0].result(20)
    assert sizes == [[("__marks", 1, 100), ("__readers", 1, 50)]]


def test_threads_store_rows_at_once(ledger: Ledger, place: Place):
    def work(name: str) -> None:
        for page in range(50):
            ledger.append([mark(name, 1, page), reader(name, page)])

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, f"r{number}") for number in range(8)]:
            done.result(120)
    for found in (ledger, restarted(place, "crash")):
        assert sorted(found.load("__marks")) == [(f"r{n}", 1, 49, "", 0) for n in range(8)]
        assert sorted(found.load("__readers")) == [(f"r{n}", b"", True, 49) for n in range(8)]


def test_no_rows_are_durable_when_all_before_them_are(log: Log, ledger: Ledger):
    async def work() -> None:
        order: list[str] = []
        first = ledger.queue_up([mark("ann", 1, 1)])
        barrier = ledger.queue_up([])
        first.add_done_callback(lambda _: order.append("first"))
        barrier.add_done_callback(lambda _: order.append("barrier"))
        assert await barrier == ()
        assert order == ["first", "barrier"]

    asyncio.run(work())
    assert live_of(log, "__marks").tails[0].high_watermark == 1


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        (("__marks", ("ann", 1, 1, "")), "length"),
        (("__marks", ("ann", 1, 1, "", 0, 7)), "length"),
        (("__marks", (None, 1, 1, "", 0)), "None"),
        (("__marks", ("ann", 2**31, 1, "", 0)), "int"),
        (("__marks", ("ann", 1, 2**63, "", 0)), "int"),
        (("__marks", ("ann", 1, 2**80, "", 0)), "int"),
        (("__marks", ("ann", 1, True, "", 0)), "bool"),
        (("__marks", ("ann", 1, 1.0, "", 0)), "float"),
        (("__marks", ("ann", 1, 1, b"", 0)), "bytes"),
        (("__marks", ("\ud800", 1, 1, "", 0)), "surrogates"),
        (("__marks", ("ann", 1, 1, "", -1)), "int"),
        (("__marks", ("ann", 1, 1, "", 253_402_300_800_000)), "int"),
        (("__marks", {"reader": "ann"}), "array"),
        (("__marks", object()), "object"),
        (("__readers", ("ann", "text", True, 1)), "bytes"),
        (("__elsewhere", ("ann", 1)), "no table of this ledger"),
        (("t", ("ann", 1)), "no table of this ledger"),
    ],
)
def test_a_row_that_no_table_can_hold_is_refused_with_all_of_its_unit(log: Log, ledger: Ledger, row, wrong: str):
    with pytest.raises(InvalidRequest, match=wrong):
        ledger.append([mark("ann", 1, 1), row])

    async def queue() -> None:
        with pytest.raises(InvalidRequest, match=wrong):
            ledger.queue_up([mark("ann", 1, 1), row])
        await ledger.queue_up([mark("bob", 1, 1)])

    asyncio.run(queue())
    assert ledger.load("__marks") == [("bob", 1, 1, "", 0)]


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"name": "marks"}, "begin"),
        ({"name": "__a/b"}, "letters"),
        ({"name": "__producers"}, "other columns"),
        ({"key": ()}, "key"),
        ({"key": ("nowhere",)}, "key"),
        ({"key": ("commit_seq",)}, "key"),
        ({"content": ()}, "content"),
        ({"content": ("reader",)}, "content"),
        ({"content": ("commit_seq",)}, "content"),
        ({"schema": MARKS.schema.remove(5)}, "commit_seq"),
        ({"schema": MARKS.schema.append(pa.field("x", pa.float32()))}, "type"),
        ({"schema": MARKS.schema.append(pa.field("a b", pa.int32()))}, "columns"),
        ({"schema": MARKS.schema.append(pa.field("page", pa.int32()))}, "columns"),
        ({"schema": MARKS.schema.set(2, pa.field("page", pa.int64(), nullable=False))}, "never null"),
    ],
)
def test_a_table_that_cannot_be_one_is_refused(log: Log, changes, wrong: str):
    log.init_producer("somebody")
    given = {name: getattr(MARKS, name) for name in ("name", "schema", "key", "content")}
    table = LedgerTable(**(given | changes))
    with pytest.raises((InvalidRequest, TopicClosed), match=wrong):
        log.open_ledger([table]).load(table.name)
    assert log.statistics().refuses is None


@pytest.mark.parametrize("changes", [{"key": ("reader",)}, {"content": ("page", "note")}, {"schema": "more"}])
def test_a_table_of_other_columns_or_another_key_is_not_touched(place: Place, changes):
    log = place.open()
    log.open_ledger(TABLES).append([mark("ann", 1, 1)])
    given = {name: getattr(MARKS, name) for name in ("name", "schema", "key", "content")} | changes
    if changes.get("schema"):
        given["schema"] = MARKS.schema.append(pa.field("more", pa.string()))
    other = log.open_ledger([LedgerTable(**given)])
    with pytest.raises(TopicClosed, match="other columns"):
        other.load("__marks")
    with pytest.raises(TopicClosed, match="other columns"):
        other.append([("__marks", ("ann", 1, 1, "", 0, *(["x"] if changes.get("schema") else [])))])
    assert restarted(place, "close").load("__marks") == [("ann", 1, 1, "", 0)]


def test_nobody_can_name_a_ledgers_table_as_a_topic(place: Place):
    log = place.open()
    log.create_topic("t")
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 1, 1), reader("ann", 1)])
    assert log.topics() == ["t"]
    assert log.queue_up("__marks", [Record(b"")]) is None
    for call in (
        lambda: log.create_topic("__marks"),
        lambda: log.create_topic("__other"),
        lambda: log.append("__marks", [Record(b"")]),
        lambda: log.append_arrow("__marks", pa.table({"value": [b""]})),
        lambda: asyncio.run(log.append_async("__marks", [Record(b"")])),
        lambda: log.read("__marks", 0, 0),
        lambda: log.offsets("__marks", 0),
        lambda: log.delete_topic("__marks"),
        lambda: log.alter_topic("__marks", {"retention.ms": 1}),
        lambda: log.add_partitions("__marks", 2),
        lambda: log.delete_records("__marks", 0, 0),
        lambda: log.run_retention("__marks"),
        lambda: log.fold("__marks"),
        lambda: log.flush("__marks"),
        lambda: log.on_records("__marks", 0, 0, lambda: None),
    ):
        with pytest.raises(InvalidName):
            call()
    with pytest.raises(TopicExists, match="__marks"):
        log.create_topic("_.marks")
    log.flush()
    with LogReader.open(place.root()) as looking:
        assert looking.topics() == ["t"]
        with pytest.raises(InvalidName):
            looking.read("__marks", 0, 0)
    assert ledger.load("__marks") == [("ann", 1, 1, "", 0)]


def test_the_figures_of_a_log_count_a_ledgers_tables(log: Log, ledger: Ledger):
    hold_tables(log)
    ledger.append([mark("ann", 1, 1), reader("ann", 1)])
    found = {topic.topic: topic for topic in log.statistics().topics}
    assert set(found) == {"__marks", "__readers"}
    assert found["__marks"].untabled_bytes > 0
    assert found["__marks"].lag_s >= 0
    log.flush()
    assert sum(topic.untabled_bytes for topic in log.statistics().topics) == log.statistics().untabled_bytes == 0


def test_the_tables_follow_without_anybody_who_asks(log: Log, ledger: Ledger):
    ledger.append([mark("ann", 1, 1)])
    eventually(lambda: len(stored(log, "__marks")) == 1)


def test_a_closed_log_takes_no_rows(place: Place):
    log = place.open()
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 1, 1)])
    place.close()
    with pytest.raises(Closed):
        ledger.append([mark("ann", 1, 2)])
    with pytest.raises(Closed):
        log.open_ledger([READERS])

    async def queue() -> None:
        with pytest.raises(Closed):
            ledger.queue_up([mark("ann", 1, 2)])

    asyncio.run(queue())


def test_two_ledgers_may_know_the_same_table(log: Log, ledger: Ledger):
    other = log.open_ledger([MARKS])
    ledger.append([mark("ann", 1, 1), reader("ann", 1)])
    other.append([mark("ann", 1, 2)])
    assert ledger.load("__marks") == other.load("__marks") == [("ann", 1, 2, "", 0)]


@pytest.mark.parametrize("how", ["", "crash", "close"])
def test_a_compaction_keeps_the_latest_row_of_each_key(place: Place, how: str):
    log = place.open()
    hold_tables(log)
    ledger = log.open_ledger(TABLES)
    for page in range(12):
        ledger.append([mark("ann", page % 3, page), mark("gone", page, page), reader("ann", page)])
        if page % 2:
            ledger.append([no_mark("gone", page - 1)])
        log.flush()
    before = state(ledger)
    assert len(stored(log, "__marks")) == 30
    assert compact(log, "__marks") == 1
    assert compact(log, "__marks") == 0
    rows = stored(log, "__marks")
    assert len(rows) == 3 + 6
    assert [row["commit_seq"] for row in rows] == sorted(row["commit_seq"] for row in rows)
    after = restarted(place, how) if how else ledger
    assert state(after) == before


def test_a_compaction_of_a_part_keeps_the_tombstones_that_older_rows_need(log: Log, ledger: Ledger):
    hold_tables(log)
    ledger.append([mark("gone", number, number) for number in range(20)])
    log.flush()
    for number in range(5):
        ledger.append([no_mark("gone", number)])
        log.flush()
    assert compact(log, "__marks") == 1
    assert [file.count for file in live_of(log, "__marks").table.snapshot.files(-1)] == [20, 5]
    assert [row[1] for row in ledger.load("__marks")] == list(range(5, 20))
    ledger.append([no_mark("gone", number) for number in range(5, 20)])
    log.flush()
    assert compact(log, "__marks") == 1
    assert stored(log, "__marks") == []
    assert ledger.load("__marks") == []
    ledger.append([mark("gone", 1, 1)])
    log.flush()
    assert [row["commit_seq"] for row in stored(log, "__marks")] == [40], "places only rise"


def test_the_background_keeps_a_busy_table_small(place: Place):
    log = place.open()
    hold_tables(log)
    ledger = log.open_ledger(TABLES)
    for page in range(60):
        ledger.append([mark("ann", page % 4, page), reader("ann", page)])
        log.flush()
        log.run_upkeep()
    for name in ("__marks", "__readers"):
        assert live_of(log, name).table.snapshot.file_count <= 11
    assert state(restarted(place, "crash")) == {
        "__marks": [("ann", page % 4, page, "", 0) for page in range(56, 60)],
        "__readers": [("ann", b"", True, 59)],
    }
