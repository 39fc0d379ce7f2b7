"""A stop while everybody is busy: what was answered is in the tables, and no answer ends in its middle."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.figures import metric
from tests.support.http_ledger import HttpLedger, read_tables
from tests.support.http_producers import FORMS, Producer, frame, join_all, run_all
from tests.support.raw_http import Answer, Cut, RawClient
from tests.support.serving import Server, journal_of, serving, wait_for

TOPICS = {"orders": 3, "quiet": 1}
DRAIN_MS = 30_000
#: No table is written before the stop, so that it has everything to do.
SLOWLY = {"lakelog.commit.interval.ms": 3_600_000}


class Reader:
    """One request for records, which ends by the stop."""

    def __init__(self, server: Server, path: str, accept: str) -> None:
        self._request = frame("GET", path, {"Accept": accept})
        self._port = server.port
        self.answer: Answer | None = None
        self.broken = b""

    def read(self) -> None:
        try:
            with RawClient(self._port) as client:
                client.socket.settimeout(40)
                self.answer = client.ask(self._request)
        except Cut as cut:
            self.broken = cut.args[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_stop_while_everybody_is_busy_leaves_every_answer_in_the_tables(tmp_path: Path, number: signal.Signals):
    ledger = HttpLedger()
    forms = [form for form in FORMS if form != "tabled"]
    with serving(tmp_path, topic_defaults=SLOWLY, drain_timeout_ms=DRAIN_MS) as server:
        for topic, partitions in TOPICS.items():
            assert httpx.put(f"{server.url}/topics/{topic}", json={"partitions": partitions}).status_code == 201
        cluster = httpx.get(server.url).json()["cluster_id"]
        producers = [Producer(ledger, form, "orders") for form in forms] + [
            Producer(ledger, "lines", "orders", stamped=True)
        ]
        records = "/topics/quiet/partitions/0/records?offset=latest"
        polls = [Reader(server, f"{records}&timeout=60000", "application/x-ndjson") for _ in range(20)]
        followers = [Reader(server, records, "text/event-stream") for _ in range(20)]
        busy = [
            Reader(server, "/topics/orders/records?offset=latest", "text/event-stream"),
            Reader(server, "/topics/orders/partitions/1/records?offset=latest", "text/event-stream"),
        ]
        readers = [*polls, *followers, *busy]
        never = threading.Event()
        work: list[Callable[[], None]] = [reader.read for reader in readers]
        threads = run_all(work)
        wait_for(lambda: metric(server, "lakelog_http_open_polls") == len(readers), "that all of them wait")
        threads += run_all(partial(each.produce, server.address, cluster, never, half=False) for each in producers)
        ledger.wait_for_answers(300)
        began = time.monotonic()
        server.process.send_signal(number)
        assert server.wait() == 0, server.story
        assert time.monotonic() - began < DRAIN_MS / 1000 + 5
        join_all(threads)
        assert "Traceback" not in server.stderr
    for reader in readers:
        assert reader.answer is not None, f"it ended with {reader.broken[-200:]!r}"
        assert reader.answer.status == 200
    assert {reader.answer.body for reader in polls if reader.answer} == {b""}
    for reader in busy:
        events = events_of(reader.answer.body if reader.answer else b"")
        assert events
        for event in events:
            ledger.saw("orders", event["partition"], event["offset"], json.dumps(event["value"]).encode())
    assert journal_of(tmp_path) == []
    ledger.check(read_tables(tmp_path, TOPICS), killed=False)
    assert [sent for sent in ledger.sent if sent.fate == "accepted"]


def test_a_request_that_is_still_coming_is_answered_wholly_or_not_at_all(tmp_path: Path):
    """Nothing of it was stored before the stop, and nothing is after it unless it was answered."""
    assert any(stop_amid_requests(tmp_path / str(number)) for number in range(5))


def stop_amid_requests(root: Path) -> bool:
    """False where the machine stood still, and no time was left for the tables, which is said."""
    with serving(root, drain_timeout_ms=3_000) as server:
        assert httpx.put(f"{server.url}/topics/quiet", json={"partitions": 1}).status_code == 201
        request = frame("POST", "/topics/quiet", {"Content-Type": "application/x-ndjson"}, b"1\n2\n3")
        stored = 0
        clients = [RawClient(server.port) for _ in range(6)]
        try:
            for number, client in enumerate(clients):
                client.send(request[: (10, len(request) - 1)[number % 2]])
            wait_for(lambda: metric(server, "lakelog_http_connections") == 7, "that all are connected")
            server.process.send_signal(signal.SIGTERM)
            for client in clients[3:]:
                client.send(request[(10, len(request) - 1)[clients.index(client) % 2] :])
            code = server.wait()
            for client in clients:
                answer = read_all_or_nothing(client)
                stored += 3 * (answer is not None and answer.status == 200)
        finally:
            for client in clients:
                client.socket.close()
    if code != 0:
        assert "the time for a stop, 3000 ms, is over" in server.stderr, server.story
        with serving(root):
            pass
    assert journal_of(root) == []
    assert len(read_tables(root, {"quiet": 1})["quiet", 0]) == stored
    return code == 0


def test_after_a_stop_has_begun_nobody_is_let_in(tmp_path: Path):
    with serving(tmp_path) as server:
        assert server.terminate() == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(server.address)


def read_all_or_nothing(client: RawClient) -> Answer | None:
    """Fails where an answer ends in its middle."""
    try:
        return client.read_answer()
    except Cut as cut:
        if cut.args[0]:
            raise
        return None


def events_of(stream: bytes) -> list[dict[str, Any]]:
    """The records among the events, each whole."""
    assert stream.endswith(b"\n\n")
    lines = [line for line in stream.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line[6:]) for line in lines]
