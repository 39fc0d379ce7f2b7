"""Appends that fail, or are interrupted: nobody else does, and nobody waits for ever."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from delta_log import Log, ProducerStamp, Record
from delta_log.model.errors import (
    OutcomeUnknown,
    StorageRefused,
)
from tests.support.logs import Place, eventually, hold_tables, values_of


def test_offsets_of_a_request_that_the_journal_refused_are_given_out_again(place: Place):
    log = place.open()
    log.create_topic("t", 2)
    log.append("t", [Record(b"0", partition=0)])
    journal = log._running.journal
    real = journal.append

    def refuse(*_: object) -> None:
        raise StorageRefused("the journal", "a test")

    journal.append = refuse  # type: ignore[method-assign, assignment]
    with pytest.raises(StorageRefused):
        log.append("t", [Record(b"lost", partition=0), Record(b"lost", partition=1)])
    assert [log.offsets("t", p).end_offset for p in range(2)] == [1, 0]
    journal.append = real  # type: ignore[method-assign]
    assert log.append("t", [Record(b"1", partition=0), Record(b"2", partition=1)]).offsets() == [1, 0]


def test_a_failure_that_nobody_foresaw_ends_the_writing_and_says_that_the_outcome_is_unknown(place: Place):
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    journal = log._running.journal
    inside, go_on = threading.Event(), threading.Event()

    def break_down(*_: object) -> None:
        inside.set()
        go_on.wait(20)
        raise MemoryError("a test")

    journal.append = break_down  # type: ignore[method-assign, assignment]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(log.append, "t", [Record(b"a")])
        inside.wait(20)
        second = pool.submit(log.append, "t", [Record(b"b")])
        eventually(lambda: log._running.writer.turns._queue)
        go_on.set()
        assert isinstance(first.exception(), OutcomeUnknown)
        assert isinstance(second.exception(), StorageRefused)
    with pytest.raises(StorageRefused):
        log.append("t", [Record(b"c")])
    place.crash()


def test_an_interrupt_reaches_the_one_who_was_interrupted(place: Place):
    log = place.open()
    log.create_topic("t")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    log._running.journal.append = interrupted  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        log.append("t", [Record(b"a")])
    place.crash()


def test_who_is_interrupted_while_he_waits_for_his_turn_does_not_take_the_lead_with_him(log: Log):
    log.create_topic("t")
    real = log._running.journal.append
    inside, go_on = threading.Event(), threading.Event()
    turns = log._running.writer.turns

    def slowly(*given: object) -> object:
        inside.set()
        assert go_on.wait(20)
        return real(*given)  # type: ignore[arg-type]

    def interrupt() -> None:
        eventually(lambda: turns._queue, "the wait of the main thread")
        os.kill(os.getpid(), signal.SIGINT)

    log._running.journal.append = slowly  # type: ignore[method-assign, assignment]
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(log.append, "t", [Record(b"a")])
        assert inside.wait(20)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        interrupting = pool.submit(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                log.append("t", [Record(b"b")])
            interrupting.result()
        finally:
            signal.signal(signal.SIGINT, before)
        go_on.set()
        assert first.result(20).offsets() == [0]
    assert log.append("t", [Record(b"c")]).offsets() == [1]


def test_a_failure_between_turn_and_journal_leaves_nobody_waiting(place: Place):
    log = place.open()
    log.create_topic("t")
    hold_tables(log)
    log.append("t", [Record(b"0")])
    real = log._running.journal.append
    inside, go_on = threading.Event(), threading.Event()
    sequencer, turns = log._running.writer.sequencer, log._running.writer.turns

    def slowly(*given: object) -> object:
        inside.set()
        assert go_on.wait(20)
        return real(*given)  # type: ignore[arg-type]

    def break_down(*_: object) -> None:
        raise MemoryError("a test")

    log._running.journal.append = slowly  # type: ignore[method-assign, assignment]
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(log.append, "t", [Record(b"1")])
        assert inside.wait(20)
        rest = [pool.submit(log.append, "t", [Record(b"2")]) for _ in range(2)]
        eventually(lambda: len(turns._queue) == 2)
        sequencer._give_offsets = break_down  # type: ignore[method-assign, assignment]
        go_on.set()
        assert first.result(20).offsets() == [1]
        assert all(isinstance(failed.exception(20), OutcomeUnknown) for failed in rest)
    assert log.offsets("t", 0).end_offset == 2
    place.crash()
    assert values_of(place.open(), "t") == [b"0", b"1"]


def test_a_refusal_that_rests_on_a_predecessor_which_was_not_stored_is_not_final(place: Place):
    """The second request breaks the rules only if the first, of the same group, is stored; it is not."""
    log = place.open()
    log.create_topic("t")
    log.append("t", [Record(b"first")], producer=ProducerStamp("p", 0, 0))
    writer, journal = log._running.writer, log._running.journal
    real = journal.append

    def refuse(*_: object) -> None:
        raise StorageRefused("the journal", "a test")

    holding, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        holding.set()
        go_on.wait(20)

    with ThreadPoolExecutor(3) as pool:
        held = pool.submit(writer.alone, hold)
        assert holding.wait(20)
        one = pool.submit(log.append, "t", [Record(b"a")], producer=ProducerStamp("p", 0, 1))
        eventually(lambda: len(writer.turns._queue) == 1)
        other = pool.submit(log.append, "t", [Record(b"b")], producer=ProducerStamp("p", 0, 1))
        eventually(lambda: len(writer.turns._queue) == 2)
        journal.append = refuse  # type: ignore[method-assign, assignment]
        go_on.set()
        held.result()
        assert isinstance(one.exception(), StorageRefused)
        assert isinstance(other.exception(), StorageRefused)
    journal.append = real  # type: ignore[method-assign]
    assert log.append("t", [Record(b"b")], producer=ProducerStamp("p", 0, 1)).offsets() == [1]


def test_two_threads_may_close_at_once(place: Place):
    log = place.open()
    log.create_topic("t")
    log.append("t", [Record(b"v")])
    with ThreadPoolExecutor(2) as pool:
        for closed in [pool.submit(log.close) for _ in range(2)]:
            closed.result(20)
    assert values_of(place.open(), "t") == [b"v"]


def test_what_is_durable_and_cannot_be_shown_is_called_unknown_and_is_there_after_a_restart(place: Place):
    log = place.open()
    log.create_topic("t")
    writer = log._running.writer

    def break_down(*_: object) -> None:
        raise MemoryError("a test")

    writer._chunk = break_down  # type: ignore[method-assign, assignment]
    with pytest.raises(OutcomeUnknown):
        log.append("t", [Record(b"durable")])
    with pytest.raises(StorageRefused):
        log.append("t", [Record(b"refused")])
    assert log.offsets("t", 0).end_offset == 0
    place.crash()
    assert values_of(place.open(), "t") == [b"durable"]
