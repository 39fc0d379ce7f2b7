"""A commit in doubt: nothing is said of it for sure until a later write is stored, and then what is true."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any
from unittest import mock

import pytest

from delta_log import Log, Record
from delta_log.model.errors import (
    LakelogError,
    NotAvailable,
    OutcomeUnknown,
    StorageRefused,
    TransactionAborted,
    TransactionFenced,
    TransactionTimedOut,
)
from tests.support.logs import Place, eventually, values_of

Act = Callable[..., Any]


@pytest.fixture
def log(place: Place) -> Log:
    log = place.open()
    log.create_topic("t")
    return log


def journal(log: Log, append: Act) -> AbstractContextManager[Any]:
    return mock.patch.object(log._running.journal, "append", append)


def refuse(*_: object) -> None:
    raise StorageRefused("the journal", "a test")


def lose_sight(*_: object) -> None:
    raise OutcomeUnknown("the journal", "a test")


def doubtful(log: Log, *, stored: bool = False, timeout_ms: int = 1000) -> str:
    """A transaction of which the log does not know whether it was stored."""
    begun = log.transactions.begin("x", timeout_ms=timeout_ms)
    log.transactions.append(begun.id, "t", [Record(b"a")])
    real = log._running.journal.append

    def lose(frames: Any, payloads: Any) -> None:
        if stored:
            real(frames, payloads)
        lose_sight()

    with journal(log, lose), pytest.raises(OutcomeUnknown):
        log.transactions.commit(begun.id)
    return begun.id


LOOKS: dict[str, Callable[[Log, str], object]] = {
    "upkeep": lambda log, _: log.transactions.expire(),
    "who describes it": lambda log, each: log.transactions.describe(each),
    "who aborts it": lambda log, each: log.transactions.abort(each),
    "who adds to it": lambda log, each: log.transactions.append(each, "t", [Record(b"b")]),
}


@pytest.mark.parametrize("look", LOOKS)
def test_an_epoch_that_is_not_durable_yet_ends_no_commit_in_doubt(place: Place, log: Log, look: str):
    """Else it is told that it was shut out, and is found in the next life."""
    each = doubtful(log, stored=True)

    def look_and_refuse(*_: object) -> None:
        with suppress(LakelogError):
            LOOKS[look](log, each)
        refuse()

    with journal(log, look_and_refuse):
        for opens in (log.transactions.begin, log.init_producer):
            with pytest.raises(StorageRefused):
                opens("x")
    with journal(log, refuse):
        for ask in (log.transactions.describe, log.transactions.commit, log.transactions.abort):
            with pytest.raises(OutcomeUnknown):
                ask(each)
    place.crash()
    log = place.open()
    assert log.transactions.describe(each).state == "committed"
    assert values_of(log, "t") == [b"a"]


@pytest.mark.parametrize("in_doubt", [True, False])
def test_who_meets_an_epoch_of_a_group_that_is_not_stored_is_not_shut_out_by_it(place: Place, log: Log, in_doubt: bool):
    each = doubtful(log, stored=True) if in_doubt else log.transactions.begin("x").id
    reached, go_on = threading.Event(), threading.Event()
    told: dict[str, BaseException] = {}

    def wait_and_refuse(*_: object) -> None:
        reached.set()
        assert go_on.wait(30)
        refuse()

    def ask(what: str, act: Act) -> threading.Thread:
        def run() -> None:
            try:
                act()
            except LakelogError as error:
                told[what] = error

        asking = threading.Thread(target=run)
        asking.start()
        return asking

    with journal(log, wait_and_refuse):
        asking = [ask("before", lambda: log.append("t", [Record(b"before")]))]
        assert reached.wait(30)
        for waiting, (what, act) in enumerate(
            [("bump", lambda: log.init_producer("x")), ("commit", lambda: log.transactions.commit(each))], 1
        ):
            asking.append(ask(what, act))
            eventually(lambda expected=waiting: log._running.writer.turns.waiting == expected)
        go_on.set()
        for one in asking:
            one.join()
    expected = OutcomeUnknown if in_doubt else StorageRefused
    assert {what: type(error) for what, error in told.items()} == {
        "before": StorageRefused,
        "bump": StorageRefused,
        "commit": expected,
    }
    if in_doubt:
        place.crash()
        assert place.open().transactions.describe(each).state == "committed"
    else:
        assert log.transactions.commit(each).key.epoch == 0


def test_a_later_write_says_that_it_is_not_stored_and_its_time_ends_it(place: Place, log: Log):
    each = doubtful(log)
    place.clock.turn(1000)
    log.run_upkeep()
    with pytest.raises(OutcomeUnknown):
        log.transactions.describe(each)
    assert log.transactions.open_count == 1
    log.append("t", [Record(b"later")])
    log.run_upkeep()
    assert (log.transactions.open_count, log.transactions.held_bytes) == (0, 0)
    for _ in range(2):
        with pytest.raises(TransactionTimedOut):
            log.transactions.commit(each)
        assert log.transactions.describe(each).state == "aborted"
        assert values_of(log, "t") == [b"later"]
        place.crash()
        log = place.open()


def abort(log: Log, each: str) -> type[LakelogError]:
    log.transactions.abort(each)
    return TransactionAborted


def shut_out(log: Log, _: str) -> type[LakelogError]:
    log.init_producer("x")
    return TransactionFenced


@pytest.mark.parametrize("end", [abort, shut_out])
def test_what_a_later_write_has_settled_ends_as_any_other(log: Log, end: Callable[[Log, str], type[LakelogError]]):
    each = doubtful(log)
    log.append("t", [Record(b"later")])
    why = end(log, each)
    assert log.transactions.describe(each).state == "aborted"
    with pytest.raises(why):
        log.transactions.commit(each)
    assert (log.transactions.open_count, log.transactions.held_bytes) == (0, 0)
    assert values_of(log, "t") == [b"later"]


def test_what_a_later_write_has_settled_is_open_as_before(log: Log):
    each = doubtful(log)
    log.append("t", [Record(b"later")])
    assert log.transactions.describe(each).state == "open"
    log.transactions.append(each, "t", [Record(b"b")])
    log.transactions.commit(each)
    assert values_of(log, "t") == [b"later", b"a", b"b"]


def test_a_write_that_fails_settles_nothing(place: Place, log: Log):
    each = doubtful(log, stored=True)
    with journal(log, refuse), pytest.raises(StorageRefused):
        log.append("t", [Record(b"later")])
    place.clock.turn(1000)
    log.run_upkeep()
    with pytest.raises(OutcomeUnknown):
        log.transactions.abort(each)
    place.crash()
    assert place.open().transactions.describe(each).state == "committed"


def test_a_commit_that_nobody_waits_for_any_more_is_not_stored_twice(place: Place, log: Log):
    """Its loop ends while it is at the journal: nobody is left who would be told what became of it."""
    begun = log.transactions.begin("x", timeout_ms=1000, version=1)
    log.transactions.append(begun.id, "t", [Record(b"a")])
    real, reached, go_on = log._running.journal.append, threading.Event(), threading.Event()

    def wait(frames: Any, payloads: Any) -> Any:
        reached.set()
        assert go_on.wait(30)
        return real(frames, payloads)

    async def leave() -> None:
        committing = asyncio.ensure_future(log.transactions.commit_async(begun.id))
        await asyncio.to_thread(reached.wait, 30)
        assert not committing.done()

    with journal(log, wait):
        asyncio.run(leave())
        with pytest.raises(OutcomeUnknown):
            log.transactions.describe(begun.id)
        go_on.set()
        eventually(lambda: values_of(log, "t") == [b"a"])
    place.clock.turn(1000)
    log.run_upkeep()
    again = log.transactions.begin("x", version=1)
    log.transactions.append(again.id, "t", [Record(b"a")])
    for each in (begun, again):
        with pytest.raises((OutcomeUnknown, NotAvailable)):
            log.transactions.commit(each.id)
    with pytest.raises(OutcomeUnknown):
        log.transactions.abort(begun.id)
    place.crash()
    log = place.open()
    assert log.transactions.describe(begun.id).state == "committed"
    assert log.transactions.commit(begun.id).version == 1
    assert values_of(log, "t") == [b"a"]
