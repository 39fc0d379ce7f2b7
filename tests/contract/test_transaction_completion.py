"""The row of a committed transaction: when the tables followed, it names versions of theirs that have all of it."""

from collections.abc import Callable
from threading import Event, Thread
from typing import Any
from unittest import mock

import msgspec
import pytest

from delta_log import Log, Record, Settings
from delta_log.maintenance import background as upkeep
from delta_log.maintenance.background import BackgroundMaintenance
from delta_log.model.errors import StorageRefused
from delta_log.records.keyed_table import Row
from delta_log.transactions.transaction_log import REMEMBERED, TABLE, TRANSACTIONS, Decisions
from tests.support.keyed_rows import live_of
from tests.support.logs import Place, eventually, hold_tables


def begun(place: Place) -> Log:
    """Its tables follow when they are told to."""
    log = place.open()
    hold_tables(log)
    return log


@pytest.fixture
def log(place: Place) -> Log:
    log = begun(place)
    log.create_topic("t", 2)
    log.create_topic("u")
    return log


def commit(log: Log, *topics: str) -> str:
    begun = log.transactions.begin("copier")
    for topic in topics:
        log.transactions.append(begun.id, topic, [Record(b"x", partition=0)])
    log.transactions.commit(begun.id)
    return begun.id


def row(log: Log, slot: int = 0) -> Row:
    return next(each for each in log.open_ledger([TRANSACTIONS]).load(TABLE) if each[1] == slot)


def versions(found: Row) -> list[tuple[str, Any]]:
    return [(each[0], each[3]) for each in msgspec.json.decode(found[5])]


def test_the_row_names_versions_as_soon_as_every_table_has_all_of_it(place: Place, log: Log):
    name = commit(log, "t", "u")
    first = log.transactions.commit(name)
    log.flush("t")
    log.transactions.complete()
    assert row(log)[4] == "committed", "u is behind"
    log.flush("u")
    log.transactions.complete()
    complete = row(log)
    assert complete[4] == "complete"
    assert versions(complete) == [(topic, live_of(log, topic).table.snapshot.version) for topic in ("t", "u")]
    log.append("t", [Record(b"y")])
    log.flush()
    log.transactions.complete()
    assert row(log) == complete, "once is enough"
    place.crash()
    assert place.open().transactions.commit(name) == first, "what it was told at first"


@pytest.mark.parametrize("end", [Place.crash, Place.close])
def test_what_one_life_did_not_say_the_next_one_says(place: Place, log: Log, end: Callable[[Place], None]):
    commit(log, "t")
    end(place)
    log = begun(place)
    assert row(log)[4] == "committed"
    log.flush("t")
    log.transactions.complete()
    assert versions(row(log)) == [("t", live_of(log, "t").table.snapshot.version)]


def test_nobody_has_to_ask_for_transactions_for_that(place: Place, log: Log):
    commit(log, "t")
    place.crash()
    log = begun(place)
    log.flush("t")
    log.run_upkeep()
    assert row(log)[4] == "complete"


def test_where_there_were_none_nothing_is_made_for_them(place: Place, log: Log):
    log.append("t", [Record(b"x")])
    log.run_upkeep()
    assert log.opened_transactions is None
    assert log.open_ledger([TRANSACTIONS]).load(TABLE) == []


def test_a_topic_that_is_gone_has_no_version(log: Log):
    commit(log, "t", "u")
    log.flush()
    log.delete_topic("u")
    log.create_topic("u")
    log.transactions.complete()
    assert versions(row(log)) == [("t", live_of(log, "t").table.snapshot.version), ("u", None)]


def test_a_refused_one_is_said_later(log: Log):
    commit(log, "t")
    log.flush()
    refused = StorageRefused("the journal", "a test")
    ledger = log.transactions._completing._ledger
    with mock.patch.object(ledger, "append", side_effect=refused), pytest.raises(StorageRefused):
        log.transactions.complete()
    log.transactions.complete()
    assert row(log)[4] == "complete"


def take_its_place_meanwhile(log: Log) -> None:
    """While the row is about to be stored again, a commit takes its place."""
    commit(log, "t")
    log.flush()
    ledger = log.transactions._completing._ledger
    append = ledger.append

    def late(*given: Any, **how: Any) -> Any:
        with mock.patch.object(ledger, "append", append):
            for _ in range(REMEMBERED):
                commit(log, "t")
            return append(*given, **how)

    with mock.patch.object(ledger, "append", late):
        log.transactions.complete()


def test_a_later_commit_that_took_its_place_is_not_written_over(place: Place, log: Log):
    take_its_place_meanwhile(log)
    assert row(log)[2] == REMEMBERED
    place.crash()
    assert row(place.open())[2] == REMEMBERED


def test_without_a_look_in_its_turn_it_would_be(log: Log):
    """That this test can fail."""
    with mock.patch.object(Decisions, "has", return_value=True):
        take_its_place_meanwhile(log)
    assert row(log)[2] == 0


def test_a_close_does_not_wait_for_a_background_that_waits_for_it(place: Place, monkeypatch: pytest.MonkeyPatch):
    """As its first pass, a second behind the opening, takes up the transactions there are."""
    monkeypatch.setattr(upkeep, "FOLLOW_EVERY_S", 0.01)
    log = place.open(settings=Settings())
    log.create_topic("t")
    commit(log, "t")
    log.close()
    passes, go_on = Event(), Event()
    monkeypatch.setattr(BackgroundMaintenance, "_look_for_newcomers", lambda _: passes.set() or go_on.wait(20))
    again, place.log = place.open(settings=Settings()), None
    background = again._running.upkeep
    assert passes.wait(20)
    closing = Thread(target=again.close, daemon=True)
    closing.start()
    eventually(background._stop.is_set)
    go_on.set()
    closing.join(20)
    assert not closing.is_alive()
    assert not background._complaints._said
