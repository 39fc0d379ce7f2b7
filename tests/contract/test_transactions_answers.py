"""What those are told who commit, abort or send again, whoever does what at the same time."""

import asyncio
import threading
from typing import Any

import pytest

from delta_log import Log, ProducerStamp, Record
from delta_log.model.errors import RecordTooLarge, TransactionDecided, TransactionError
from delta_log.transactions.transaction import Commit
from tests.support.additions import Pages
from tests.support.keyed_rows import TABLES, mark
from tests.support.logs import Place, values_of
from tests.support.racing import be_quicker_to


@pytest.fixture
def log(place: Place) -> Log:
    log = place.open()
    log.create_topic("t")
    return log


def test_who_aborts_what_is_committed_before_him_is_told_so(log: Log):
    """Whoever is first at its lock has it; who comes behind is not told what it was when he asked."""
    begun = log.transactions.begin("x")
    log.transactions.append(begun.id, "t", [Record(b"a")])
    be_quicker_to(log, begun.id, lambda: log.transactions.commit(begun.id))
    with pytest.raises(TransactionDecided, match="is committed"):
        log.transactions.abort(begun.id)
    assert values_of(log, "t") == [b"a"]
    under_way = log.transactions.begin("x")
    be_quicker_to(log, under_way.id, lambda: log.transactions._committing.start(under_way.id))
    with pytest.raises(TransactionDecided, match="being committed"):
        log.transactions.abort(under_way.id)


def test_whoever_stops_waiting_for_a_commit_takes_the_answer_from_nobody(log: Log):
    """As a request does whose patience is over."""
    real, go_on = log._running.journal.append, threading.Event()

    def wait(frames: Any, payloads: Any) -> Any:
        assert go_on.wait(30)
        return real(frames, payloads)

    async def work() -> None:
        begun = await asyncio.to_thread(log.transactions.begin, "x")
        await asyncio.to_thread(log.transactions.append, begun.id, "t", [Record(b"a")])
        log._running.journal.append = wait  # type: ignore[method-assign]
        first, *leaving, last = [asyncio.ensure_future(log.transactions.commit_async(begun.id)) for _ in range(4)]
        await asyncio.sleep(0)
        for each in (first, *leaving):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(each, 0)
        again = asyncio.ensure_future(log.transactions.commit_async(begun.id))
        await asyncio.sleep(0)
        go_on.set()
        assert await last == await again == await log.transactions.commit_async(begun.id)

    asyncio.run(work())
    assert values_of(log, "t") == [b"a"]


@pytest.mark.parametrize("stage", [None, "a"])
def test_a_repeat_within_a_transaction_is_known_by_rules_that_would_refuse_it_now(log: Log, stage: str | None):
    """What was taken is not refused when it is sent again, as it is not outside of one."""
    begun = log.transactions.begin("x")
    stamp, records = ProducerStamp("x", 0, 0), [Record(b"a" * 3000, partition=0)]
    log.transactions.append(begun.id, "t", records, stamp, stage)
    log.alter_topic("t", {"max.message.bytes": 1000})
    assert log.transactions.append(begun.id, "t", records, stamp, stage).duplicate
    for new in (ProducerStamp("x", 0, 1), None):
        with pytest.raises(RecordTooLarge):
            log.transactions.append(begun.id, "t", records, new, stage)
    log.transactions.commit(begun.id)
    assert values_of(log, "t") == [b"a" * 3000]


def test_what_was_added_is_not_left_out_by_a_commit_that_nobody_stores_it_with(log: Log):
    ledger = log.open_ledger(TABLES)
    begun = log.transactions.begin("x")
    log.transactions.append(begun.id, "t", [Record(b"a")])
    log.transactions.add(begun.id, Pages([7]))
    with pytest.raises(TransactionError, match="nobody stores"):
        log.transactions.commit(begun.id)
    with pytest.raises(TransactionError, match="nobody stores"):
        asyncio.run(log.transactions.commit_async(begun.id))
    assert (log.transactions.describe(begun.id).state, values_of(log, "t")) == ("open", [])

    async def store(commit: Commit) -> object:
        return await ledger.queue_up([mark("ann", 7, 7)], commit.appends, decide=commit.decide)

    committed = asyncio.run(log.transactions.commit_async(begun.id, store))  # type: ignore[arg-type]
    assert (committed.notes, values_of(log, "t")) == ([[7]], [b"a"])
    assert [row[1] for row in ledger.load("__marks")] == [7]
    assert log.transactions.commit(begun.id) == committed
