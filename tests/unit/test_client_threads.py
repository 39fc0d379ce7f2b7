"""What is the Producer's own: futures for threads, and threads that come, go and survive what processes do.

Past 300 lines, as most of them are scripts.
"""

from __future__ import annotations

import base64
import gc
import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Generator
from typing import Any

import pytest

from lakelog import Producer, RecordFuture, RecordMetadata
from lakelog.foundation import errors
from lakelog.transport.exchange import Outcome, Request
from tests.architecture.project_files import ROOT
from tests.support.client_wire import DEADLINE_S, SETTINGS, Wire, store_all
from tests.support.serving import wait_for


@pytest.fixture
def wire() -> Wire:
    return Wire()


@pytest.fixture
def producer(wire: Wire) -> Generator[Producer]:
    producer = Producer(SETTINGS, transport=wire)
    yield producer
    producer.close(0)
    wire.release()


def our_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "lakelog-producer"]


@pytest.fixture(autouse=True)
def alone() -> None:
    """Those of a producer of another test end some time after it did."""
    wait_for(lambda: our_threads() == [], "the end of other threads")


def test_a_future_waits_as_long_as_it_is_told(producer: Producer, wire: Wire):
    future = producer.send("t", b"x")
    for ask in (future.result, future.exception):
        with pytest.raises(TimeoutError):
            ask(0.01)
    assert (future.done(), future.running(), future.cancelled(), future.cancel()) == (False, True, False, False)
    wire.take().answer_stored()
    assert future.result(DEADLINE_S) == RecordMetadata("t", 0, 0, None)
    assert (future.done(), future.running()) == (True, False)


def test_many_threads_may_wait_for_one_batch(producer: Producer, wire: Wire):
    found: list[int | None] = []
    futures = [producer.send("t", b"x") for _ in range(8)]
    threads = [
        threading.Thread(target=lambda future=future: found.append(future.result(DEADLINE_S).offset))
        for future in futures
    ]
    for thread in threads:
        thread.start()
    stored = 0
    while stored < len(futures):  # in as many requests as it takes
        asked = wire.take()
        asked.answer_stored(base=stored)
        stored += len(asked.records)
    for thread in threads:
        thread.join(DEADLINE_S)
    assert sorted(offset for offset in found if offset is not None) == list(range(8))


def test_a_callback_of_a_future_is_given_that_future_before_and_after_it_is_done(
    producer: Producer, wire: Wire, caplog: pytest.LogCaptureFixture
):
    seen: list[RecordFuture] = []
    future = producer.send("t", b"x")
    future.add_done_callback(seen.append)
    assert seen == []
    wire.take().answer_stored()
    producer.flush(DEADLINE_S)
    assert seen == [future]
    future.add_done_callback(seen.append)
    assert seen == [future, future]
    future.add_done_callback(lambda _: 1 / 0)
    assert "ZeroDivisionError" in caplog.text


def test_an_error_of_many_records_can_be_raised_by_each_without_growing(producer: Producer, wire: Wire):
    future = producer.send("t", b"x")
    wire.take().answer(404, {"error_code": 40401, "message": "no"})
    depths: list[int] = []
    for _ in range(3):
        with pytest.raises(errors.UnknownTopic) as caught:
            future.result(DEADLINE_S)
        depths.append(len(caught.traceback))
    assert len(set(depths)) == 1


def test_a_future_that_is_kept_keeps_no_record(producer: Producer, wire: Wire):
    future = producer.send("t", b"x" * 1_000)
    wire.take().answer_stored()
    future.result(DEADLINE_S)
    assert future._batch.rows == []


def test_records_of_a_thread_stay_in_its_order_though_many_send():
    act, requests = store_all(), {}

    def remember(request: Request) -> Outcome | None:
        requests[int(request.headers["Producer-Seq"])] = json.loads(request.body)["records"]
        return act(request)

    with Producer(SETTINGS | {"batch.size": 1_000}, transport=Wire(remember)) as producer:

        def send(key: bytes) -> None:
            for number in range(500):
                producer.send("t", b"%d" % number, key=key)

        threads = [threading.Thread(target=send, args=(key,)) for key in (b"a", b"b", b"c", b"d")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
    in_order = [record for sequence in sorted(requests) for record in requests[sequence]]
    by_key: dict[str, list[int]] = {}
    for record in in_order:
        by_key.setdefault(record["key"], []).append(int(base64.b64decode(record["value"])))
    assert list(by_key.values()) == [list(range(500))] * 4


def test_a_callback_may_send(producer: Producer, wire: Wire):
    chain: list[RecordFuture] = []

    def send_next(error: object, _: object) -> None:
        if len(chain) < 3:
            chain.append(producer.send("t", b"next", on_delivery=send_next))

    producer.send("t", b"first", on_delivery=send_next)
    for number in range(4):
        wire.take().answer_stored(base=number)
    wait_for(lambda: len(chain) == 3, "the chain")
    assert chain[-1].result(DEADLINE_S).offset == 3


def test_a_callback_may_ask_for_another_record_and_close_but_not_wait_for_itself(
    producer: Producer, wire: Wire, caplog: pytest.LogCaptureFixture
):
    seen: list[Any] = []
    later: list[RecordFuture] = []

    def look(error: object, _: object) -> None:
        later.append(producer.send("t", b"later"))
        wire.take().answer_stored(base=1)
        seen.append(later[0].result(DEADLINE_S).offset)
        producer.close()
        seen.append("closed")
        producer.flush()

    producer.send("t", b"x", on_delivery=look)
    wire.take().answer_stored()
    wait_for(lambda: "would wait for itself" in caplog.text, "the refusal")
    assert seen == [1, "closed"]


def test_no_more_threads_are_started_than_requests_may_be_under_way_and_one():
    wire = Wire()
    with Producer(SETTINGS | {"batch.size": 1}, transport=wire) as producer:
        futures = [producer.send("t", b"x") for _ in range(50)]
        asked = [wire.take() for _ in range(5)]
        assert len(our_threads()) <= 6
        wire.act = store_all()
        for each in asked:
            each.answer_stored()
        futures[-1].result(DEADLINE_S)
    wait_for(lambda: our_threads() == [], "the end of all threads")
    assert wire.closed.is_set()


def test_a_producer_that_never_sent_has_no_thread_and_closes_its_transport(wire: Wire):
    producer = Producer(SETTINGS, transport=wire)
    assert our_threads() == []
    producer.close()
    assert wire.closed.is_set()


def test_a_producer_that_is_forgotten_delivers_and_ends(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.WARNING)
    wire = Wire()
    producer = Producer(SETTINGS | {"linger.ms": 60_000}, transport=wire)
    future = producer.send("t", b"x")
    del producer
    gc.collect()
    wire.take().answer_stored()
    assert future.result(DEADLINE_S).offset == 0
    wait_for(lambda: our_threads() == [], "the end of all threads")
    assert wire.closed.is_set()


def run_script(script: str) -> subprocess.CompletedProcess[str]:
    head = """
        import os, sys, threading
        from lakelog import Producer, errors
        from tests.support.client_wire import SETTINGS, Wire, store_all
    """
    text = textwrap.dedent(head) + textwrap.dedent(script)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(
        # From Python 3.12 on a fork beside threads is warned of: here it is what is tested.
        [sys.executable, "-W", "error", "-W", "ignore:This process:DeprecationWarning", "-c", text],
        capture_output=True, text=True, timeout=100, check=False, env=environment,
    )  # fmt: skip


def test_a_process_ends_only_when_what_was_sent_is_delivered():
    ended = run_script(
        """
        act = store_all()
        def slow(request):
            threading.Event().wait(0.2)
            print("stored", flush=True)
            return act(request)
        producer = Producer(SETTINGS | {"linger.ms": 60_000}, transport=Wire(slow))
        producer.send("t", b"x")
        """
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "stored\n", "")


def test_the_child_of_a_fork_knows_that_nothing_is_its_own_and_the_parent_goes_on():
    ended = run_script(
        """
        wire = Wire()
        producer = Producer(SETTINGS, transport=wire)
        before = producer.send("t", b"x")
        asked = wire.take()
        waiting = producer.send("t", b"y", on_delivery=lambda *_: print("called back in", os.getpid() == parent))
        parent = os.getpid()
        child = os.fork()
        if child == 0:
            assert before.exception(40).outcome == "unknown"
            assert waiting.exception(40).outcome == "unknown"
            try:
                producer.send("t", b"z")
            except errors.Closed as error:
                assert "fork" in str(error)
                producer.flush(40)
                producer.close(40)
                own = Producer(SETTINGS, transport=Wire(store_all()))
                assert own.send("t", b"z").result(40).offset == 0
                own.close()
                os._exit(7)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        asked.answer_stored()
        wire.take().answer_stored(base=1)
        assert (before.result(40).offset, waiting.result(40).offset) == (0, 1)
        producer.close()
        """
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "called back in True\n", "")


def test_the_child_of_a_fork_neither_commits_nor_aborts_what_its_parent_began():
    ended = run_script(
        """
        from tests.unit.test_client_transactions import Server
        server = Server()
        producer = Producer(SETTINGS | {"transactional.id": "copier"}, transport=Wire(server))
        try:
            with producer.transaction():
                future = producer.send("t", b"x")
                child = os.fork()
                if child == 0:
                    try:
                        producer.send("t", b"y")
                    except errors.Closed as error:
                        assert "fork" in str(error)
                        raise ValueError("the child's own")
        except ValueError:
            producer.close()
            os._exit(7 if len(server.asked) == 1 else 1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 7
        assert future.result(40).offset == 0
        producer.close()
        """
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_fork_while_another_thread_is_sending_leaves_a_child_that_works():
    ended = run_script(
        """
        import signal
        producer = Producer(SETTINGS, transport=Wire(store_all()))
        stop = threading.Event()
        def send():
            while not stop.is_set():
                producer.send("t", b"x")
        threads = [threading.Thread(target=send) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(30):
            child = os.fork()
            if child == 0:
                signal.alarm(60)
                try:
                    producer.send("t", b"x")
                except errors.Closed:
                    os._exit(7)
                os._exit(1)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 7, status
        stop.set()
        for thread in threads:
            thread.join()
        producer.close()
        """
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_time_longer_than_a_lock_can_wait_is_for_ever(wire: Wire):
    with Producer(SETTINGS | {"buffer.memory": 500, "max.block.ms": 2**63 - 1}, transport=wire) as producer:
        producer.send("t", b"x" * 400)
        threading.Timer(0.05, wire.take().answer_stored).start()
        producer.send("t", b"x" * 400)
        threading.Timer(0.05, wire.take().answer_stored).start()
        producer.flush(1e18)
