"""Beginning a transaction: most epochs were reserved, cost no write, and shut out earlier holders all the same."""

import threading
from typing import Any
from unittest import mock

import pytest

from delta_log import Log, ProducerStamp, Record
from delta_log.model.errors import OutcomeUnknown, StaleProducerEpoch, TransactionFenced
from delta_log.records.idempotence import ProducerRow, Producers
from tests.support.logs import Place, eventually, replace_settings, values_of


@pytest.fixture
def log(place: Place) -> Log:
    log = place.open(replace_settings())
    log.create_topic("t")
    return log


def begin(log: Log, name: str = "x") -> int:
    return log.transactions.begin(name).epoch


def writes(log: Log, count: int) -> int:
    """How many groups so many beginnings cost."""
    before = sum(log._running.writer.meter.seconds.counts)
    for _ in range(count):
        begin(log)
    return sum(log._running.writer.meter.seconds.counts) - before


def test_who_begins_often_pays_for_few_of_the_epochs(log: Log):
    assert writes(log, 1) == 1
    assert writes(log, 1000) <= 8


def test_who_begins_once_in_a_while_is_given_epochs_that_follow_each_other(place: Place):
    log = place.open()
    epochs: list[int] = []
    for how in (place.close, place.crash, place.close):
        epochs.append(begin(log))
        place.clock.turn(200_000)
        epochs.append(begin(log))
        place.clock.turn(200_000)
        how()
        log = place.open()
    assert epochs == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("end", ["close", "crash", "fold"])
def test_a_start_skips_what_was_reserved(place: Place, log: Log, end: str):
    opened = [begin(log) for _ in range(5)]
    assert opened == [0, 1, 2, 3, 4]
    if end == "fold":
        log.flush()
        place.crash()
    else:
        getattr(place, end)()
    assert begin(place.open()) > 4


def test_what_was_reserved_is_opened_for_a_minute(place: Place, log: Log):
    assert writes(log, 2) == 2, "the second of them reserves two more"
    place.clock.turn(59_999)
    assert writes(log, 1) == 0
    place.clock.turn(1)
    assert writes(log, 1) == 1


def test_a_reserved_epoch_shuts_out_who_sends_under_an_earlier_one(place: Place, log: Log):
    first, second, third = (begin(log) for _ in range(3))
    with pytest.raises(StaleProducerEpoch):
        log.append("t", [Record(b"late")], producer=ProducerStamp("x", second, 0))
    log.append("t", [Record(b"in time")], producer=ProducerStamp("x", third, 0))
    place.crash()
    log = place.open()
    with pytest.raises(StaleProducerEpoch):
        log.append("t", [Record(b"late")], producer=ProducerStamp("x", first, 0))
    assert values_of(log, "t", 0) == [b"in time"]


def seen_by_the_next_holder(log: Log, commit_waits: Any) -> tuple[list[Any], list[Any]]:
    """What is there when a holder is told that it has begun, while a commit of the one before is at the journal."""
    old = [log.transactions.begin("x") for _ in range(3)][-1]
    log.transactions.append(old.id, "t", [Record(b"old")])
    real, reached, go_on = log._running.journal.append, threading.Event(), threading.Event()
    seen: list[Any] = []

    def slow(frames: Any, payloads: Any) -> Any:
        reached.set()
        assert go_on.wait(30)
        return real(frames, payloads)

    def take_over() -> None:
        commit_waits(log, "x")
        seen.extend(values_of(log, "t", 0))

    with mock.patch.object(log._running.journal, "append", slow):
        committing = threading.Thread(target=lambda: log.transactions.commit(old.id))
        committing.start()
        assert reached.wait(30)
        beginning = threading.Thread(target=take_over)
        beginning.start()
        eventually(lambda: log._running.writer.turns.waiting or not beginning.is_alive())
        go_on.set()
        committing.join()
        beginning.join()
    return seen, values_of(log, "t", 0)


def test_whoever_is_told_that_he_has_begun_sees_all_that_holders_before_him_committed(log: Log):
    assert seen_by_the_next_holder(log, begin) == ([b"old"], [b"old"])


def test_it_shows_an_epoch_that_is_opened_out_of_turn(log: Log):
    def open_at_once(log: Log, name: str) -> None:
        producers = log._running.writer.producers
        reserved = producers.decide_reserved(name, log._clock_ms())
        assert reserved is not None
        producers.open_reserved(name, reserved)

    assert seen_by_the_next_holder(log, open_at_once) == ([], [b"old"])


def test_an_epoch_is_written_while_the_journal_cannot_say_what_became_of_a_commit(log: Log):
    """That settles it: what was opened in memory alone would leave it open whether the holder before has committed."""
    old = [log.transactions.begin("x") for _ in range(3)][-1]
    log.transactions.append(old.id, "t", [Record(b"old")])
    with (
        mock.patch.object(log._running.journal, "append", side_effect=OutcomeUnknown("the journal", "a test")),
        pytest.raises(OutcomeUnknown),
    ):
        log.transactions.commit(old.id)
    assert writes(log, 1) == 1
    assert writes(log, 1) == 0
    with pytest.raises(TransactionFenced):
        log.transactions.commit(old.id)
    assert values_of(log, "t", 0) == []


@pytest.mark.parametrize("opens", ["another transaction", "an epoch alone"])
def test_who_is_shut_out_stays_so_however_soon_producers_are_forgotten(place: Place, opens: str):
    """An epoch is not forgotten while a transaction of its name is open: a smaller one would shut out nobody."""
    log = place.open(replace_settings(producer_expiration_ms=30_000))
    log.create_topic("t")
    old = [log.transactions.begin("x", timeout_ms=900_000) for _ in range(3)][-1]
    log.transactions.append(old.id, "t", [Record(b"old")])
    if opens == "an epoch alone":
        log.init_producer("x")
    place.clock.turn(200_000)
    log.run_upkeep()
    if opens == "another transaction":
        new = log.transactions.begin("x")
        assert new.epoch == old.epoch + 1
        log.transactions.append(new.id, "t", [Record(b"new")])
        log.transactions.commit(new.id)
    with pytest.raises(TransactionFenced):
        log.transactions.commit(old.id)
    assert values_of(log, "t", 0) == ([b"new"] if opens == "another transaction" else [])
    place.clock.turn(200_000)
    log._running.upkeep._forgot = float("-inf")
    log.run_upkeep()
    assert log._running.writer.producers.count == 0


def test_an_id_of_which_somebody_used_up_the_epochs_begins_transactions_again(place: Place):
    """A log of before made-up epochs were refused: the count begins again, and fences as it always did."""
    log = place.open(replace_settings())
    log.create_topic("t")
    committed = log.transactions.begin("x")
    log.transactions.append(committed.id, "t", [Record(b"1")])
    log.transactions.commit(committed.id)
    with mock.patch.object(Producers, "_most_epoch", return_value=2**31 - 1):
        log.append("t", [Record(b"2")], producer=ProducerStamp("x", 2**31 - 2, 0))
    last = log.transactions.begin("x")
    assert last.epoch == 2**31 - 1
    log.transactions.append(last.id, "t", [Record(b"lost")])
    successor = log.transactions.begin("x")
    assert successor.epoch == 2**29
    with pytest.raises(TransactionFenced):
        log.transactions.commit(last.id)
    log.transactions.append(successor.id, "t", [Record(b"3")])
    log.transactions.commit(successor.id)
    place.crash()
    log = place.open(replace_settings())
    assert log.transactions.describe(successor.id).state == "committed"
    assert log.transactions.begin("x").epoch in range(successor.epoch + 1, successor.epoch + 2000)
    assert values_of(log, "t") == [b"1", b"2", b"3"]


def test_records_are_taken_in_epochs_that_no_unknown_producer_may_begin_in(log: Log):
    """Of an id that was used a million times."""
    log._running.writer.alone(lambda: log._running.writer.producers.replay(bump_of("x", 1_000_000)))
    begun = log.transactions.begin("x")
    for sequence in (0, 1):
        log.transactions.append(begun.id, "t", [Record(b"x")], producer=ProducerStamp("x", begun.epoch, sequence))
    log.transactions.commit(begun.id)
    assert values_of(log, "t") == [b"x"] * 2


def bump_of(name: str, epoch: int) -> ProducerRow:
    return ProducerRow(name, "", "", epoch, 0, 0, b"", 0, (), 0)
