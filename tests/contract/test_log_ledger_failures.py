"""Rows of a ledger that fail: whole units, nobody else, and never what was decided upon them.

It is long, as each way to fail is tried on one stage: in the journal, at a table, where an owner or a loop ends.
"""

import asyncio
import threading
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor

import pytest

from delta_log import Appended, Ledger, Limits, Log, Record
from delta_log.delta.actions import Txn
from delta_log.delta.conflicts import Kind
from delta_log.delta.snapshot import EPOCH_TXN
from delta_log.delta.table import Table
from delta_log.model.errors import (
    Closed,
    LakelogError,
    NotOwner,
    OutcomeUnknown,
    Overloaded,
    StorageRefused,
    TopicClosed,
)
from tests.support.keyed_rows import MARKS, TABLES, compact, live_of, mark, reader, state
from tests.support.logs import Place, eventually, hold_tables, replace_settings, values_of
from tests.support.tables import info

Outcome = LakelogError | tuple[()]


@pytest.fixture
def ledger(log: Log) -> Ledger:
    """Its tables are there."""
    opened = log.open_ledger(TABLES)
    opened.append([mark("ann", 0, 0), reader("ann", 0)])
    return opened


def refuse(*_: object) -> None:
    raise StorageRefused("the journal", "a test")


def pages(ledger: Ledger) -> list[int]:
    return [row[2] for row in ledger.load("__marks")]


async def outcomes(*waiting: Awaitable[object]) -> list[Outcome]:
    return await asyncio.gather(*waiting, return_exceptions=True)  # type: ignore[return-value]


class Held:
    """The journal waits in the middle of a write; `fail` makes what it does next a refusal, for so many writes."""

    def __init__(self, log: Log, *, fail: int = 0) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self.fail = fail
        self.writes = 0
        self._real = log._running.journal.append
        log._running.journal.append = self  # type: ignore[method-assign, assignment]

    def __call__(self, frames: object, payloads: object) -> object:
        self.inside.set()
        assert self.go_on.wait(20)
        self.writes += 1
        if self.fail:
            self.fail -= 1
            refuse()
        return self._real(frames, payloads)  # type: ignore[arg-type]


async def reached(event: threading.Event) -> None:
    while not event.is_set():  # noqa: ASYNC110 - an event of threads
        await asyncio.sleep(0.001)


def test_places_of_rows_that_the_journal_refused_are_given_out_again(log: Log, ledger: Ledger):
    log.create_topic("t")
    real = log._running.journal.append
    log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageRefused):
        ledger.append([mark("ann", 1, 1), reader("ann", 1)])
    assert state(ledger) == {"__marks": [("ann", 0, 0, "", 0)], "__readers": [("ann", b"", True, 0)]}
    log._running.journal.append = real  # type: ignore[method-assign]
    ledger.append([mark("ann", 2, 2)])
    assert log.append("t", [Record(b"v")]).offsets() == [0]
    assert live_of(log, "__marks").tails[0].high_watermark == 2
    assert live_of(log, "__readers").tails[0].high_watermark == 1
    assert pages(ledger) == [0, 2]


def test_what_was_decided_upon_rows_that_were_not_stored_is_not_stored(log: Log, ledger: Ledger):
    """Neither what shared their group, nor what came behind it, nor what came after the failure was known."""
    hold_tables(log)

    async def work() -> None:
        held = Held(log, fail=1)
        first = ledger.queue_up([mark("ann", 1, 1)])
        await reached(held.inside)
        second = ledger.queue_up([mark("ann", 1, 2)])
        third = ledger.queue_up([reader("ann", 3)])
        held.go_on.set()
        assert all(isinstance(error, StorageRefused) for error in await outcomes(first, second, third))
        late = ledger.queue_up([mark("ann", 1, 4)])
        barrier = ledger.queue_up([])
        assert all(isinstance(error, StorageRefused) for error in await outcomes(late, barrier))
        assert held.writes == 1, "what was refused was written"
        ledger.resume()
        assert await outcomes(ledger.queue_up([mark("ann", 1, 5)]), ledger.queue_up([reader("ann", 6)])) == [(), ()]

    asyncio.run(work())
    assert state(ledger) == {
        "__marks": [("ann", 0, 0, "", 0), ("ann", 1, 5, "", 0)],
        "__readers": [("ann", b"", True, 6)],
    }
    assert live_of(log, "__marks").tails[0].high_watermark == 2


def test_what_was_queued_up_before_the_resumption_stays_refused(log: Log, ledger: Ledger):
    """It was decided when the failure was not known, however late its turn comes."""

    async def work() -> None:
        held = Held(log, fail=1)
        first = ledger.queue_up([mark("ann", 1, 1)])
        await reached(held.inside)
        second = ledger.queue_up([mark("ann", 1, 2)])
        ledger.resume()
        third = ledger.queue_up([mark("ann", 1, 3)])
        held.go_on.set()
        found = await outcomes(first, second, third)
        assert [isinstance(error, StorageRefused) for error in found] == [True, True, False]

    asyncio.run(work())
    assert pages(ledger) == [0, 3]


def test_what_waits_for_nobody_is_refused_by_its_own_failure_alone(log: Log, ledger: Ledger):
    """Neither rows of threads, nor another ledger's, nor records."""
    log.create_topic("t")
    other = log.open_ledger(TABLES)

    async def work() -> None:
        held = Held(log, fail=1)
        held.go_on.set()
        assert isinstance((await outcomes(ledger.queue_up([mark("ann", 1, 1)])))[0], StorageRefused)
        assert await outcomes(other.queue_up([mark("ann", 2, 2)])) == [()]
        await asyncio.to_thread(ledger.append, [mark("ann", 3, 3)])
        await log.append_async("t", [Record(b"v")])
        assert isinstance((await outcomes(ledger.queue_up([mark("ann", 4, 4)])))[0], StorageRefused)

    asyncio.run(work())
    assert pages(ledger) == [0, 2, 3]
    assert values_of(log, "t") == [b"v"]


def test_a_failure_of_a_thread_refuses_nobody_else(log: Log, ledger: Ledger):
    real = log._running.journal.append
    log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageRefused):
        ledger.append([mark("ann", 1, 1)])
    log._running.journal.append = real  # type: ignore[method-assign]

    async def work() -> None:
        await ledger.queue_up([mark("ann", 2, 2)])

    asyncio.run(work())
    assert pages(ledger) == [0, 2]


def test_a_closed_table_refuses_whole_units_and_no_other_table(log: Log, ledger: Ledger):
    hold_tables(log)
    live_of(log, "__readers").close(TopicClosed("__readers", "a test"))
    with pytest.raises(TopicClosed):
        ledger.append([mark("ann", 1, 1), reader("ann", 1)])
    assert live_of(log, "__marks").tails[0].log_end_offset == live_of(log, "__marks").tails[0].high_watermark == 1
    ledger.append([mark("ann", 2, 2)])
    with pytest.raises(TopicClosed):
        ledger.load("__readers")

    async def work() -> None:
        turns = log._running.writer.turns
        box: list[asyncio.Future[tuple[Appended, ...]]] = []
        loop = asyncio.get_running_loop()
        queued = threading.Event()

        def queue() -> None:
            box.extend(ledger.queue_up([row]) for row in (mark("ann", 3, 3), reader("ann", 3), mark("ann", 4, 4)))
            queued.set()

        def hold() -> None:
            loop.call_soon_threadsafe(queue)
            assert queued.wait(20)
            assert turns.waiting == 3

        await asyncio.to_thread(log._running.writer.alone, hold)
        found = await outcomes(*box)
        assert [type(error) for error in found] == [tuple, TopicClosed, TopicClosed]
        ledger.resume()
        await ledger.queue_up([mark("ann", 5, 5)])

    asyncio.run(work())
    assert pages(ledger) == [0, 2, 3, 5]


def test_a_table_that_is_damaged_closes_alone(place: Place):
    log = place.open()
    log.create_topic("t")
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0), reader("ann", 0)])
    log.flush()
    store = place.root().store
    version = live_of(log, "__marks").table.snapshot.version + 1
    store.put(f"topics/__marks/_delta_log/{version:020d}.json", b'{"commitInfo":')
    ledger.append([mark("ann", 1, 1)])
    eventually(lambda: live_of(log, "__marks").closed)
    with pytest.raises(LakelogError):
        ledger.append([mark("ann", 2, 2)])
    ledger.append([reader("ann", 1)])
    assert log.append("t", [Record(b"v")]).offsets() == [0]
    assert "__marks" in log.statistics().closed
    place.close()
    log = place.open()
    ledger = log.open_ledger(TABLES)
    with pytest.raises(TopicClosed):
        ledger.load("__marks")
    assert ledger.load("__readers") == [("ann", b"", True, 1)]
    store.delete(f"topics/__marks/_delta_log/{version:020d}.json")
    with pytest.raises(TopicClosed):
        ledger.append([mark("ann", 2, 2)])
    place.close()
    assert pages(place.open().open_ledger(TABLES)) == [0, 1], "what was promised comes back when it is mended"


@pytest.mark.parametrize("what", ["refused", "request lost", "answer lost"])
def test_where_a_table_cannot_be_made_nothing_is_stored_and_the_next_try_makes_it(place: Place, what):
    log = place.open()
    ledger = log.open_ledger(TABLES)
    place.fail("create", "__marks/_delta_log", what, 2)
    with pytest.raises((StorageRefused, OutcomeUnknown)):
        ledger.append([mark("ann", 1, 1), reader("ann", 1)])
    place.faults.clear()
    place.fail("create", "__marks/_delta_log", what, 2)

    async def work() -> None:
        waiting = [ledger.queue_up([mark("ann", 1, 1)]) for _ in range(5)]
        found = await outcomes(*waiting)
        if what == "answer lost":
            assert found == [()] * 5, "it was made by the first try"
            return
        assert all(isinstance(error, StorageRefused | OutcomeUnknown) for error in found)
        place.faults.clear()
        assert isinstance((await outcomes(ledger.queue_up([mark("ann", 1, 1)])))[0], StorageRefused)
        ledger.resume()
        await asyncio.gather(*(ledger.queue_up([mark("ann", 1, number)]) for number in range(5)))

    asyncio.run(work())
    assert pages(ledger) == ([1] if what == "answer lost" else [4])


def test_an_unforeseen_failure_while_a_table_is_made_reaches_all_who_wait(place: Place, monkeypatch):
    log = place.open()
    ledger = log.open_ledger(TABLES)

    def break_down(*_: object, **__: object) -> None:
        raise MemoryError("a test")

    monkeypatch.setattr(log._running.catalog, "ledger", break_down)

    async def work() -> None:
        waiting = [ledger.queue_up([mark("ann", 1, 1)]) for _ in range(3)]
        assert all(isinstance(error, StorageRefused) for error in await outcomes(*waiting))

    asyncio.run(work())
    monkeypatch.undo()
    ledger.append([mark("ann", 1, 1)])


def test_a_failure_that_nobody_foresaw_ends_the_writing_and_says_that_the_outcome_is_unknown(place: Place):
    log = place.open()
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0)])

    def break_down(*_: object) -> None:
        raise MemoryError("a test")

    log._running.journal.append = break_down  # type: ignore[method-assign, assignment]
    with pytest.raises(OutcomeUnknown):
        ledger.append([mark("ann", 1, 1)])
    with pytest.raises(StorageRefused):
        ledger.append([mark("ann", 2, 2)])
    place.crash()
    assert pages(place.open().open_ledger(TABLES)) == [0]


def test_what_is_durable_and_cannot_be_shown_is_called_unknown_and_is_there_after_a_restart(place: Place):
    log = place.open()
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0), reader("ann", 0)])

    def break_down(*_: object) -> None:
        raise MemoryError("a test")

    log._running.writer._chunk = break_down  # type: ignore[method-assign, assignment]
    with pytest.raises(OutcomeUnknown):
        ledger.append([mark("ann", 1, 1), reader("ann", 1)])
    place.crash()
    assert state(place.open().open_ledger(TABLES)) == {
        "__marks": [("ann", 0, 0, "", 0), ("ann", 1, 1, "", 0)],
        "__readers": [("ann", b"", True, 1)],
    }


def test_where_the_tables_are_behind_a_loop_is_refused_at_once_and_nothing_breaks(place: Place):
    log = place.open(replace_settings(limits=Limits(topic_bytes=50)))
    hold_tables(log)
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0)])

    async def work() -> None:
        with pytest.raises(Overloaded):
            ledger.queue_up([mark("a" * 100, 1, 1)])
        await ledger.queue_up([reader("ann", 1)])

    asyncio.run(work())
    with pytest.raises(Overloaded):
        ledger.append([mark("a" * 100, 1, 1)])
    log.flush()
    ledger.append([mark("a" * 100, 1, 1)])
    assert pages(ledger) == [0, 1]


def test_a_thread_waits_until_the_tables_have_caught_up(place: Place):
    log = place.open(replace_settings(limits=Limits(topic_bytes=50), max_block_s=20.0))
    hold_tables(log)
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0)])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ledger.append, [mark("a" * 100, 1, 1)])
        assert not waiting.done()
        log.flush()
        waiting.result(20)
    assert pages(ledger) == [0, 1]


def another_owner(place: Place, epoch: int) -> None:
    table = Table(place.root().store, "topics/__marks", epoch=epoch)
    table.load()
    table.commit(Kind.CONFIG, lambda snapshot: [info(), Txn(EPOCH_TXN, epoch)])


def test_an_owner_that_was_replaced_stores_no_row_any_more(place: Place):
    log = place.open()
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0)])
    log.flush()
    another_owner(place, log.epoch + 5)
    ledger.append([mark("ann", 1, 1)])  # nobody has told us yet
    eventually(lambda: log.statistics().ownership_lost)
    with pytest.raises(NotOwner):
        ledger.append([mark("ann", 2, 2)])

    async def work() -> None:
        with pytest.raises(NotOwner):
            ledger.queue_up([mark("ann", 2, 2)])

    asyncio.run(work())
    place.crash()
    log = place.open()
    assert "set aside" in log.recovery, "rows of an epoch that the table has left are named, not replayed"
    assert pages(log.open_ledger([MARKS])) == [0]


def test_a_loop_that_ends_takes_nothing_with_it(log: Log, ledger: Ledger):
    held = Held(log)

    async def give_up() -> None:
        ledger.queue_up([mark("ann", 1, 1)])
        await reached(held.inside)
        ledger.queue_up([mark("ann", 2, 2)])

    asyncio.run(give_up())
    held.go_on.set()
    ledger.append([mark("ann", 3, 3)])
    eventually(lambda: pages(ledger) == [0, 1, 2, 3])


def test_a_loop_that_ends_while_its_rows_wait_for_their_table_takes_nothing_with_it(place: Place):
    log = place.open()
    ledger = log.open_ledger(TABLES)
    inside, go_on = threading.Event(), threading.Event()
    real = log._running.catalog.ledger

    def slowly(*given: object, **named: object) -> object:
        inside.set()
        assert go_on.wait(20)
        return real(*given, **named)  # type: ignore[arg-type]

    log._running.catalog.ledger = slowly  # type: ignore[method-assign, assignment]

    async def give_up() -> None:
        ledger.queue_up([mark("ann", 1, 1)])
        ledger.queue_up([mark("ann", 2, 2)])
        await reached(inside)

    asyncio.run(give_up())

    async def another() -> None:
        waiting = ledger.queue_up([mark("ann", 3, 3)])
        go_on.set()
        await waiting

    asyncio.run(another())
    assert pages(ledger) == [1, 2, 3]


def test_a_close_finishes_with_rows_that_wait_for_their_table(place: Place):
    """They are stored, or told that the log is closed."""
    log = place.open()
    ledger = log.open_ledger(TABLES)
    inside, go_on = threading.Event(), threading.Event()
    real = log._running.catalog.ledger

    def slowly(*given: object, **named: object) -> object:
        inside.set()
        assert go_on.wait(20)
        return real(*given, **named)  # type: ignore[arg-type]

    log._running.catalog.ledger = slowly  # type: ignore[method-assign, assignment]

    async def work() -> list[Outcome]:
        waiting = [ledger.queue_up([mark("ann", number, number)]) for number in range(3)]
        await reached(inside)
        closing = asyncio.create_task(asyncio.to_thread(log.close))
        while log._running.writer.fatal is None:  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0.001)
        go_on.set()
        assert await closing
        return await outcomes(*waiting)

    assert all(isinstance(error, Closed) for error in asyncio.run(work()))
    place.log = None
    assert pages(place.open().open_ledger(TABLES)) == []


def test_a_lost_commit_of_a_ledgers_table_is_made_once(place: Place):
    log = place.open()
    hold_tables(log)
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 0, 0)])
    for number, what in enumerate(("refused", "request lost", "answer lost"), 1):
        ledger.append([mark("ann", number, number)])
        fault = place.fail("create", "__marks/_delta_log", what, 2)  # type: ignore[arg-type]
        with pytest.raises((StorageRefused, OutcomeUnknown)):
            log.flush()
        place.faults.remove(fault)
        log.flush()
    assert pages(ledger) == [0, 1, 2, 3]
    place.close()
    assert pages(place.open().open_ledger(TABLES)) == [0, 1, 2, 3]


def test_a_compaction_that_fails_changes_nothing(place: Place):
    log = place.open()
    hold_tables(log)
    ledger = log.open_ledger(TABLES)
    for page in range(4):
        ledger.append([mark("ann", 1, page)])
        log.flush()
    for operation, part, what in (
        ("put", "__marks/0", "refused"),
        ("put", "__marks/0", "answer lost"),
        ("create", "__marks/_delta_log", "refused"),
        ("create", "__marks/_delta_log", "request lost"),
    ):
        fault = place.fail(operation, part, what, 2)  # type: ignore[arg-type]
        with pytest.raises((StorageRefused, OutcomeUnknown)):
            compact(log, "__marks")
        place.faults.remove(fault)
        assert pages(ledger) == [3]
    ledger.append([mark("ann", 1, 9)])
    log.flush()
    assert compact(log, "__marks") == 1
    assert pages(ledger) == [9]
    place.crash()
    assert pages(place.open().open_ledger(TABLES)) == [9]
