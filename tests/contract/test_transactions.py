"""Transactions: all of it becomes visible, or nothing ever does, and every question gets its first answer.

It is long, as every rule of a transaction has its example here, on one stage.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from delta_log import Log, ProducerStamp, Record, Settings
from delta_log.model.errors import (
    InvalidRecord,
    InvalidStamp,
    InvalidTransactionTimeout,
    LakelogError,
    OutcomeUnknown,
    OutOfOrderSequence,
    Overloaded,
    SequenceReused,
    StorageRefused,
    TopicClosed,
    TransactionAborted,
    TransactionDecided,
    TransactionFenced,
    TransactionTimedOut,
    TransactionTooLarge,
    UnknownTopic,
    UnknownTransaction,
)
from delta_log.model.transaction_bounds import Bounds
from delta_log.transactions.transaction import Commit
from tests.support.additions import Pages
from tests.support.keyed_rows import TABLES, live_of, mark
from tests.support.logs import Place, everything, hold_tables, replace_settings, values_of

PLACES = (("t", 0), ("t", 1), ("u", 0))


def settings(**bounds: int) -> Settings:
    return replace_settings(transactions=replace(Bounds(), **bounds))


def begun(place: Place, **bounds: int) -> Log:
    log = place.open(settings(**bounds))
    log.create_topic("t", 2)
    log.create_topic("u")
    return log


@pytest.fixture
def log(place: Place) -> Log:
    return begun(place)


def visible(log: Log) -> list[list[bytes | None]]:
    return [values_of(log, *at) for at in PLACES]


def fill(log: Log, transaction: str, name: bytes = b"a") -> None:
    log.transactions.append(transaction, "t", [Record(name + b"0", partition=0), Record(name + b"1", partition=1)])
    log.transactions.append(transaction, "u", pa.table({"value": [name + b"2", name + b"3"]}))
    log.transactions.append(transaction, "t", [Record(name + b"4", partition=0)])


FULL = [[b"a0", b"a4"], [b"a1"], [b"a2", b"a3"]]
NOTHING: list[list[bytes | None]] = [[], [], []]


def test_nothing_is_seen_before_the_commit_and_all_of_it_after(log: Log):
    begun = log.transactions.begin("x")
    assert (begun.transactional_id, begun.epoch) == ("x", 0)
    fill(log, begun.id)
    assert visible(log) == NOTHING
    log.append("t", [Record(b"other", partition=0)])
    assert log.transactions.describe(begun.id).state == "open"
    committed = log.transactions.commit(begun.id)
    assert visible(log) == [[b"other", *FULL[0]], *FULL[1:]]
    assert [(each.topic, [tuple(vars_of(r)) for r in each.ranges]) for each in committed.ranges] == [
        ("t", [(0, 1, 2), (1, 0, 1)]),
        ("u", [(0, 0, 2)]),
    ]
    assert committed.requests is not None
    assert [(each.topic, [r.base_offset for r in each.ranges]) for each in committed.requests] == [
        ("t", [1, 0]),
        ("u", [0]),
        ("t", [2]),
    ]
    (first, *_) = everything(log, "u")
    assert first.offset == 0


def vars_of(given) -> list[int]:
    return [given.partition, given.base_offset, given.count]


def test_an_aborted_one_is_never_seen(log: Log):
    begun = log.transactions.begin("x")
    fill(log, begun.id)
    log.transactions.abort(begun.id)
    log.transactions.abort(begun.id)
    assert visible(log) == NOTHING
    assert log.transactions.describe(begun.id).state == "aborted"
    for act in (lambda: log.transactions.commit(begun.id), lambda: fill(log, begun.id)):
        with pytest.raises(TransactionAborted):
            act()
    assert visible(log) == NOTHING
    assert (log.transactions.open_count, log.transactions.held_bytes) == (0, 0)


@pytest.mark.parametrize("how", ["", "crash", "close"])
def test_a_commit_that_is_repeated_gets_the_first_answer(place: Place, how: str):
    log = begun(place)
    first = log.transactions.begin("x")
    fill(log, first.id)
    committed = log.transactions.commit(first.id)
    if how:
        (place.crash if how == "crash" else place.close)()
        log = place.open()
    for _ in range(2):
        assert log.transactions.commit(first.id) == committed
        assert log.transactions.describe(first.id).committed == committed
    with pytest.raises(TransactionDecided):
        log.transactions.abort(first.id)
    with pytest.raises(TransactionDecided):
        fill(log, first.id)
    assert visible(log) == FULL


@pytest.mark.parametrize("how", ["crash", "close"])
def test_a_restart_forgets_what_was_not_decided_and_says_so(place: Place, how: str):
    log = begun(place, memory_bytes=0)
    left, aborted, done = (log.transactions.begin(name) for name in ("left", "aborted", "done"))
    for each in (left, aborted, done):
        fill(log, each.id)
    log.transactions.abort(aborted.id)
    log.transactions.commit(done.id)
    (place.crash if how == "crash" else place.close)()
    if place.path is not None:
        assert not [path for path in place.path.rglob("*") if "transaction-" in path.name]
    log = place.open()
    assert visible(log) == FULL
    for each in (left, aborted):
        assert log.transactions.describe(each.id).state == "aborted"
        with pytest.raises(TransactionAborted):
            log.transactions.commit(each.id)
        log.transactions.abort(each.id)
    with pytest.raises(UnknownTransaction):
        log.transactions.describe("never")
    assert log.transactions.begin("left").epoch == 1


def test_a_later_holder_of_the_id_shuts_the_older_one_out(log: Log):
    old = log.transactions.begin("x")
    fill(log, old.id)
    new = log.transactions.begin("x")
    assert (new.epoch, new.id != old.id) == (1, True)
    for act in (lambda: log.transactions.commit(old.id), lambda: fill(log, old.id)):
        with pytest.raises(TransactionFenced):
            act()
    fill(log, new.id)
    log.transactions.commit(new.id)
    assert visible(log) == FULL


def test_an_epoch_opened_without_a_transaction_shuts_it_out_too(log: Log):
    old = log.transactions.begin("x")
    fill(log, old.id)
    log.init_producer("x")
    with pytest.raises(TransactionFenced):
        log.transactions.commit(old.id)
    other = log.transactions.begin("y")
    fill(log, other.id)
    log.init_producer("y")
    with pytest.raises(TransactionFenced):
        fill(log, other.id)
    assert visible(log) == NOTHING


def test_an_epoch_that_is_opened_while_the_commit_waits_for_its_turn_shuts_it_out(log: Log):
    """The decision is made where the offsets are given out, not where it was asked for."""
    old = log.transactions.begin("x")
    fill(log, old.id)
    step = log.transactions._committing.start(old.id)
    assert isinstance(step, tuple)
    found, commit = step
    log.init_producer("x")
    with pytest.raises(TransactionFenced) as error:
        log.transactions._ledger.append([], commit.appends, decide=commit.decide)
    log.transactions._committing.not_stored(found, error.value)
    assert visible(log) == NOTHING
    assert log.transactions.describe(old.id).state == "aborted"


def test_its_time_aborts_it(place: Place):
    log = begun(place)
    first = log.transactions.begin("x", timeout_ms=1000)
    fill(log, first.id)
    place.clock.turn(999)
    assert log.transactions.describe(first.id).state == "open"
    place.clock.turn(1)
    with pytest.raises(TransactionTimedOut):
        log.transactions.commit(first.id)
    with pytest.raises(TransactionTimedOut):
        fill(log, first.id)
    assert log.transactions.describe(first.id).state == "aborted"
    second = log.transactions.begin("x", timeout_ms=1000)
    fill(log, second.id)
    place.clock.turn(1000)
    log.transactions.begin("y")
    assert log.transactions.open_count == 1
    assert visible(log) == NOTHING
    for wrong in (0, -1, 900_001):
        with pytest.raises(InvalidTransactionTimeout):
            log.transactions.begin("x", timeout_ms=wrong)


def test_a_repeat_within_a_transaction_is_taken_once(log: Log):
    begun = log.transactions.begin("x")
    stamp = ProducerStamp("x", 0, 0)
    first = log.transactions.append(begun.id, "t", [Record(b"a"), Record(b"b")], stamp)
    again = log.transactions.append(begun.id, "t", [Record(b"a"), Record(b"b")], stamp)
    assert (first.duplicate, again.duplicate, first.partitions == again.partitions) == (False, True, True)
    with pytest.raises(SequenceReused):
        log.transactions.append(begun.id, "t", [Record(b"a"), Record(b"c")], stamp)
    with pytest.raises(OutOfOrderSequence):
        log.transactions.append(begun.id, "t", [Record(b"c")], ProducerStamp("x", 0, 5))
    for wrong in (ProducerStamp("y", 0, 2), ProducerStamp("x", 1, 2)):
        with pytest.raises(InvalidStamp):
            log.transactions.append(begun.id, "t", [Record(b"c")], wrong)
    log.transactions.append(begun.id, "u", [Record(b"d")], stamp)
    log.transactions.commit(begun.id)
    assert [sorted(values_of(log, "t", 0) + values_of(log, "t", 1)), values_of(log, "u")] == [[b"a", b"b"], [b"d"]]


def test_what_breaks_a_rule_is_refused_and_the_transaction_goes_on(log: Log):
    begun = log.transactions.begin("x")
    with pytest.raises(InvalidRecord):
        log.transactions.append(begun.id, "t", [Record(b"a"), Record("b")])  # type: ignore[arg-type]
    with pytest.raises(UnknownTopic):
        log.transactions.append(begun.id, "nowhere", [Record(b"a")])
    fill(log, begun.id)
    log.transactions.commit(begun.id)
    assert visible(log) == FULL


def test_a_large_one_is_no_different(place: Place):
    """It lies in a file without a name, and is what it was when it is read from there."""
    log = begun(place, memory_bytes=5000)
    hold_tables(log)
    small, large = log.transactions.begin("small"), log.transactions.begin("large")
    fill(log, small.id, b"s")
    for number in range(60):
        records = [
            Record(b"%d" % at, b"k", headers=(("h", b"v"),), partition=at % 2) for at in range(number, number + 9)
        ]
        log.transactions.append(large.id, "t", records)
        log.transactions.append(large.id, "u", pa.table({"value": [b"%d" % number] * 200}))
        held = log.transactions._standing.open.get(large.id).held
        assert held.memory <= 5000
    assert log.transactions.held_bytes > 20_000
    assert visible(log) == NOTHING
    log.transactions.commit(large.id)
    log.transactions.commit(small.id)
    found = {at: everything(log, *at) for at in PLACES}
    assert len(found["t", 0]) + len(found["t", 1]) == 60 * 9 + 3
    assert [record.value for record in found["u", 0]] == [b"%d" % n for n in range(60) for _ in range(200)] + [
        b"s2",
        b"s3",
    ]
    assert found["t", 0][0].headers == (("h", b"v"),)
    assert log.transactions.held_bytes == 0
    place.crash()
    log = place.open()
    assert {at: everything(log, *at) for at in PLACES} == found
    log.flush()
    assert {at: everything(log, *at) for at in PLACES} == found


def test_bounds_are_kept_and_said(place: Place):
    log = begun(place, most_bytes=1000, most_open=2, total_bytes=4000)
    one, two = log.transactions.begin("one"), log.transactions.begin("two")
    with pytest.raises(Overloaded, match=r"^transactions: 2 are open, the limit is 2; try again$"):
        log.transactions.begin("three")
    with pytest.raises(TransactionTooLarge):
        log.transactions.append(one.id, "t", [Record(b"x" * 1000)])
    log.transactions.append(one.id, "t", [Record(b"x" * 900, partition=0)])
    with pytest.raises(TransactionTooLarge):
        log.transactions.append(one.id, "t", [Record(b"x" * 100)])
    with pytest.raises(Overloaded, match=r"^open transactions hold much: \d+ bytes wait, the limit is 4000; "):
        log.transactions.append(two.id, "t", [Record(b"x" * 900)])
    log.transactions.commit(one.id)
    log.transactions.append(two.id, "t", [Record(b"y" * 900, partition=0)])
    log.transactions.commit(two.id)
    assert [value[:1] for value in values_of(log, "t", 0) if value] == [b"x", b"y"]


def test_what_the_caller_stores_beside_it_is_a_part_of_its_size_once_for_each_name(place: Place):
    log = begun(place, most_bytes=1000, total_bytes=1500)
    one, two = log.transactions.begin("one"), log.transactions.begin("two")
    log.transactions.add(one.id, Pages("a", "p", 300))
    log.transactions.add(one.id, Pages("b", "p", 300))
    with pytest.raises(TransactionTooLarge):
        log.transactions.add(one.id, Pages("c", "p", 500))
    with pytest.raises(TransactionTooLarge):
        log.transactions.append(one.id, "t", [Record(b"x" * 450)])
    log.transactions.add(two.id, Pages("d", "q", 800))
    with pytest.raises(Overloaded):
        log.transactions.add(one.id, Pages("e", "q", 200))
    assert log.transactions.held_bytes == 1400
    log.transactions.abort(two.id)
    assert log.transactions.held_bytes == 600
    log.transactions.add(one.id, Pages("e", "q", 200))

    async def store(commit: Commit) -> object:
        return await log.transactions._ledger.queue_up([], commit.appends, decide=commit.decide, in_line=False)

    answer = asyncio.run(log.transactions.commit_async(one.id, store))  # type: ignore[arg-type]
    assert answer.notes == log.transactions.describe(one.id).committed.notes == [["a", "b"], ["e"]]  # type: ignore[union-attr]
    assert log.transactions.held_bytes == 0


def test_one_whose_epoch_was_replaced_by_other_ways_keeps_no_place_from_others(place: Place):
    log = begun(place, most_open=1)
    log.transactions.begin("one")
    log.init_producer("one")
    assert log.transactions.begin("two").epoch == 0


def refuse(*_: object) -> None:
    raise StorageRefused("the journal", "a test")


def unknown(*_: object) -> None:
    raise OutcomeUnknown("the journal", "a test")


def test_a_commit_that_was_not_stored_may_be_tried_again(log: Log):
    begun = log.transactions.begin("x")
    fill(log, begun.id)
    real = log._running.journal.append
    log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageRefused):
        log.transactions.commit(begun.id)
    assert log.transactions.describe(begun.id).state == "open"
    log._running.journal.append = real  # type: ignore[method-assign]
    log.transactions.commit(begun.id)
    assert visible(log) == FULL


def test_of_a_commit_in_doubt_nothing_is_said_for_sure_until_it_is(log: Log):
    begun = log.transactions.begin("x")
    fill(log, begun.id)
    real = log._running.journal.append
    log._running.journal.append = unknown  # type: ignore[method-assign, assignment]
    with pytest.raises(OutcomeUnknown):
        log.transactions.commit(begun.id)
    log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
    for act in (log.transactions.commit, log.transactions.abort, log.transactions.describe):
        with pytest.raises(OutcomeUnknown):
            act(begun.id)
    log._running.journal.append = real  # type: ignore[method-assign]
    log.transactions.commit(begun.id)
    assert visible(log) == FULL


def test_a_topic_that_is_gone_aborts_and_one_that_is_closed_does_not(log: Log):
    gone, closed = log.transactions.begin("gone"), log.transactions.begin("closed")
    log.transactions.append(gone.id, "t", [Record(b"x", partition=0)])
    fill(log, closed.id)
    log.delete_topic("u")
    log.transactions.append(gone.id, "t", [Record(b"y", partition=0)])
    with pytest.raises(UnknownTopic):
        log.transactions.commit(closed.id)
    assert log.transactions.describe(closed.id).state == "aborted"
    with pytest.raises(UnknownTopic):
        log.transactions.commit(closed.id)
    live_of(log, "t").close(TopicClosed("t", "a test"))
    with pytest.raises(TopicClosed):
        log.transactions.commit(gone.id)
    assert log.transactions.describe(gone.id).state == "open"


def test_the_last_five_of_each_id_are_remembered(place: Place):
    log = begun(place)
    answers = []
    for number in range(8):
        each = log.transactions.begin("x")
        log.transactions.append(each.id, "t", [Record(b"%d" % number, partition=0)])
        answers.append((each.id, log.transactions.commit(each.id)))
    for _ in range(2):
        for each_id, committed in answers[3:]:
            assert log.transactions.commit(each_id) == committed
        for each_id, _ in answers[:3]:
            with pytest.raises(OutcomeUnknown):
                log.transactions.commit(each_id)
        place.crash()
        log = place.open()
    assert len(values_of(log, "t", 0)) == 8


def test_decisions_are_forgotten_after_their_time(place: Place):
    log = begun(place, expiration_ms=1000)
    old = log.transactions.begin("x")
    fill(log, old.id)
    log.transactions.commit(old.id)
    place.clock.turn(700_000)
    log.transactions.expire()
    for how in (lambda: None, place.crash, place.close):
        how()
        log = place.log or place.open(settings(expiration_ms=1000))
        assert len(log.transactions._standing.decisions) == 0
        with pytest.raises(OutcomeUnknown):
            log.transactions.describe(old.id)


def test_tasks_commit_together_and_beside_rows_of_another_ledger(log: Log):
    ledger = log.open_ledger(TABLES)

    async def work() -> None:
        ids = [await asyncio.to_thread(log.transactions.begin, f"x{number}") for number in range(8)]
        for number, each in enumerate(ids):
            await asyncio.to_thread(log.transactions.append, each.id, "t", [Record(b"%d" % number, partition=0)])
            log.transactions.add(each.id, Pages([number]))

        async def store(commit: Commit) -> object:
            ((number,),) = (each.values for each in commit.additions)
            return await ledger.queue_up([mark("ann", number, number)], commit.appends, decide=commit.decide)

        twice = [log.transactions.commit_async(each.id, store) for each in ids for _ in range(2)]  # type: ignore[arg-type]
        answers = await asyncio.gather(*twice)
        assert answers[::2] == answers[1::2]
        assert [answer.notes for answer in answers[::2]] == [[[number]] for number in range(8)]

    asyncio.run(work())
    assert sorted(values_of(log, "t", 0)) == [b"%d" % number for number in range(8)]
    assert sorted(row[1] for row in ledger.load("__marks")) == list(range(8))


def test_what_the_caller_stores_beside_it_may_refuse_and_aborts_it(log: Log):
    async def work() -> None:
        begun = await asyncio.to_thread(log.transactions.begin, "x")
        await asyncio.to_thread(fill, log, begun.id)
        log.transactions.add(begun.id, Pages(["anything"]))

        async def store(_: Commit) -> object:
            raise UnknownTopic("a test")

        for _ in range(2):
            with pytest.raises(UnknownTopic):
                await log.transactions.commit_async(begun.id, store)  # type: ignore[arg-type]
        assert log.transactions.describe(begun.id).state == "aborted"

    asyncio.run(work())
    assert visible(log) == NOTHING


def test_one_that_waits_holds_back_nobody(log: Log):
    first = log.transactions.begin("x")
    fill(log, first.id)
    for number in range(3):
        assert log.append("t", [Record(b"%d" % number, partition=0)]).offsets() == [number]
        other = log.transactions.begin("y")
        log.transactions.append(other.id, "u", [Record(b"%d" % number)])
        log.transactions.commit(other.id)
    assert visible(log) == [[b"0", b"1", b"2"], [], [b"0", b"1", b"2"]]
    log.transactions.abort(first.id)


@pytest.mark.parametrize("act", ["begin", "append", "commit", "abort", "describe"])
def test_a_closed_log_answers_nothing(place: Place, act: str):
    log = begun(place)
    transactions = log.transactions
    first = transactions.begin("x")
    place.close()
    given = {"begin": ("y",), "append": (first.id, "t", [Record(b"x")])}.get(act, (first.id,))
    with pytest.raises(LakelogError):
        getattr(transactions, act)(*given)


@pytest.mark.parametrize("end", [Place.crash, Place.close])
def test_who_was_open_when_a_life_ended_is_not_told_of_a_rival(place: Place, end: Callable[[Place], None]):
    """Else a program would take itself for the past of another, and end."""
    log = begun(place)
    for _ in range(5):  # epochs behind its own are reserved
        last = log.transactions.begin("x")
    end(place)
    log = place.open()
    with pytest.raises(TransactionAborted):
        log.transactions.commit(last.id)
    log.transactions.begin("x")
    with pytest.raises(TransactionFenced):
        log.transactions.commit(last.id)
