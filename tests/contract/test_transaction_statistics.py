"""Transactions in numbers: what is open, for how long, and how those before it ended."""

import pytest

from delta_log import Log, Record, TransactionStatistics
from delta_log.model.errors import TransactionTimedOut
from tests.support.logs import Place


def measured(log: Log) -> TransactionStatistics:
    return log.statistics().transactions


def test_what_is_open_is_measured_and_what_has_ended_is_counted_by_how_it_did(place: Place):
    log = place.open()
    log.create_topic("t")
    assert measured(log) == TransactionStatistics(), "nobody has asked for one"
    old = log.transactions.begin("x", timeout_ms=60_000)
    log.transactions.append(old.id, "t", [Record(b"v" * 1000)])
    place.clock.turn(5_000)
    other = log.transactions.begin("y", timeout_ms=60_000)
    now = measured(log)
    assert (now.open, now.oldest_s) == (2, 5.0)
    assert 2400 < now.held_bytes < 2500, "with what it takes of memory"
    log.transactions.commit(old.id)
    assert (measured(log).open, measured(log).oldest_s, measured(log).held_bytes) == (1, 0.0, 0)
    place.clock.turn(60_000)
    with pytest.raises(TransactionTimedOut):
        log.transactions.commit(other.id)
    log.transactions.begin("z")
    log.transactions.abort(log.transactions.begin("z").id)
    assert dict(measured(log).ended) == {"committed": 1, "aborted": 1, "fenced": 1, "timed_out": 1}
