"""That it was its time that aborted a transaction is said in later lives, too."""

from collections.abc import Callable
from contextlib import suppress
from unittest import mock

import pytest

from delta_log import Log
from delta_log.model.errors import (
    StorageRefused,
    TransactionAborted,
    TransactionFenced,
    TransactionTimedOut,
    VersionDecided,
)
from delta_log.model.transaction_bounds import Bounds
from tests.support.logs import Place


def begun(place: Place) -> Log:
    log = place.open()
    log.create_topic("t")
    return log


@pytest.mark.parametrize("end", [Place.crash, Place.close])
def test_that_its_time_was_over_is_said_in_a_later_life_too(place: Place, end: Callable[[Place], None]):
    log = begun(place)
    first = log.transactions.begin("x", timeout_ms=1000, version=7)
    log.transactions.commit(first.id)
    late, other = log.transactions.begin("x", timeout_ms=1000), log.transactions.begin("y", timeout_ms=1001)
    place.clock.turn(1000)
    log.run_upkeep()
    for _ in range(2):
        end(place)
        log = place.open()
        log.transactions.abort(late.id)  # as it may, of one that was aborted
        with pytest.raises(TransactionTimedOut):
            log.transactions.commit(late.id)
        with pytest.raises(TransactionAborted):
            log.transactions.commit(other.id)
        log.run_upkeep()
    with pytest.raises(VersionDecided):
        log.transactions.begin("x", version=7)
    log.transactions.begin("x")
    with pytest.raises(TransactionTimedOut):
        log.transactions.commit(late.id)
    place.clock.turn(Bounds().expiration_ms)
    log.run_upkeep()
    with pytest.raises(VersionDecided):
        log.transactions.begin("x", version=7)


def test_whose_time_was_over_takes_no_commit_s_place(place: Place):
    log = begun(place)
    commits = [log.transactions.begin("x") for _ in range(5)]
    for each in commits:
        with suppress(TransactionFenced):
            log.transactions.commit(each.id)
    last = log.transactions.commit(commits[-1].id)
    late = [log.transactions.begin("x", timeout_ms=1)]
    for _ in range(9):
        place.clock.turn(1)
        late.append(log.transactions.begin("x", timeout_ms=1))
    place.clock.turn(1)
    log.run_upkeep()
    place.crash()
    log = place.open()
    assert log.transactions.commit(commits[-1].id) == last
    with pytest.raises(TransactionTimedOut):
        log.transactions.commit(late[-1].id)
    with pytest.raises(TransactionFenced):
        log.transactions.commit(late[0].id)


def test_a_refused_row_of_it_is_stored_later(place: Place):
    log = begun(place)
    late = log.transactions.begin("x", timeout_ms=1)
    place.clock.turn(1)
    with pytest.raises(TransactionTimedOut):
        log.transactions.commit(late.id)
    refused = StorageRefused("the journal", "a test")
    with mock.patch.object(log.transactions._ledger, "append", side_effect=refused), pytest.raises(StorageRefused):
        log.transactions.complete()
    log.transactions.complete()
    with mock.patch.object(log.transactions._ledger, "append", side_effect=refused):
        log.transactions.complete()  # once is enough
    place.crash()
    with pytest.raises(TransactionTimedOut):
        place.open().transactions.commit(late.id)
