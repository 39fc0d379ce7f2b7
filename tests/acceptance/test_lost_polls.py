"""Answers to polls that break off on real connections are given again, and nothing of them is committed."""

from __future__ import annotations

import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.figures import metric
from tests.support.serving import DEADLINE_S, Server, serving, wait_for

RECORDS, SIZE = 20_000, 1_000
INSTANCE = "/consumers/g/instances/ann"
POLL = f"{INSTANCE}/records?max_bytes=60000000&timeout=60000"
#: Of which nothing is expected but that it commits what was polled before.
NOTHING = f"{INSTANCE}/records?timeout=300"
RESET = struct.pack("ii", 1, 0)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """With more records than any buffer between here and there holds, and an instance that has been given none."""
    with serving(tmp_path / "data", log_level="warning") as made:
        with httpx.Client(base_url=made.url, timeout=DEADLINE_S) as client:
            assert client.put("/topics/orders").status_code == 201
            lines = b"".join(b'"%06d%s"\n' % (number, b"x" * SIZE) for number in range(RECORDS))
            headers = {"Content-Type": "application/x-ndjson"}
            assert client.post("/topics/orders", content=lines, headers=headers).status_code == 200
            options = {"name": "ann", "format": "json", "auto.commit.interval.ms": 0}
            assert client.post("/consumers/g", json=options).status_code == 200
            assert client.post(f"{INSTANCE}/subscription", json={"topics": ["orders"]}).status_code == 204
        yield made


def begin(server: Server, path: str = POLL) -> socket.socket:
    """A poll of which little is read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(DEADLINE_S)
    connection.connect(server.address)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    return connection


def offsets(records: list[dict[str, Any]]) -> list[int]:
    return [each["offset"] for each in records]


def committed(server: Server) -> int:
    asked = httpx.get(f"{server.url}{INSTANCE}/offsets?topic=orders&partition=0")
    return asked.json()["offsets"][0]["offset"]


def poll(server: Server, path: str = POLL) -> list[int]:
    return offsets(httpx.get(server.url + path, timeout=DEADLINE_S).json())


def test_a_client_that_dies_in_the_middle_of_an_answer_is_given_all_of_it_again(server: Server):
    for how in ("reset", "close"):
        with begin(server) as connection:
            if how == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    assert poll(server) == list(range(RECORDS))
    assert committed(server) == -1
    assert poll(server, NOTHING) == []
    assert committed(server) == RECORDS


def test_a_client_that_is_gone_without_a_word_is_given_all_of_it_again(server: Server):
    """Nobody has told the server that the first connection is dead; it still waits for its reader."""
    with begin(server):
        assert poll(server) == list(range(RECORDS))
        assert committed(server) == -1


def test_a_server_that_is_killed_in_the_middle_of_an_answer_gives_all_of_it_again(server: Server, tmp_path: Path):
    with begin(server):
        server.kill()
    with serving(tmp_path / "data", log_level="warning") as again:
        assert poll(again) == list(range(RECORDS))
        assert committed(again) == -1


def test_a_poll_is_answered_within_milliseconds_of_a_produce(server: Server):
    with httpx.Client(base_url=server.url, timeout=DEADLINE_S) as client, httpx.Client(base_url=server.url) as producer:
        assert len(client.get(POLL).json()) == RECORDS

        def took(number: int) -> float:
            answers: list[httpx.Response] = []
            waiting = threading.Thread(target=lambda: answers.append(client.get(POLL)))
            waiting.start()
            time.sleep(0.02)
            began = time.monotonic()
            stored = producer.post("/topics/orders", json={"records": [{"value": number}]})
            assert stored.status_code == 200
            waiting.join(DEADLINE_S)
            seconds = time.monotonic() - began
            assert [each["value"] for each in answers[0].json()] == [number]
            return seconds

        # A machine that does other things may be slow for all of them, but not again and again.
        assert any(sorted(map(took, range(20)))[5] < 0.1 for _ in range(5))


def test_a_clean_stop_answers_who_waits_and_the_next_server_goes_on(server: Server, tmp_path: Path):
    assert len(poll(server)) == RECORDS
    answers: list[httpx.Response] = []
    path = f"{server.url}{INSTANCE}/records?timeout=60000"
    waiting = threading.Thread(target=lambda: answers.append(httpx.get(path, timeout=100)))
    waiting.start()
    wait_for(lambda: metric(server, "lakelog_http_open_polls") == 1, "a poll that waits")
    server.process.send_signal(signal.SIGTERM)
    assert server.wait() == 0
    waiting.join(DEADLINE_S)
    assert (answers[0].status_code, answers[0].json()) == (200, [])
    with serving(tmp_path / "data", log_level="warning") as again:
        assert committed(again) == RECORDS
        assert poll(again, NOTHING) == []
