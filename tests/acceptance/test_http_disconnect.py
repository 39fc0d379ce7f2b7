"""Clients that go away: all of a request is stored or nothing, wherever in it they went."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Generator
from itertools import count, pairwise
from pathlib import Path
from typing import Literal

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.support.figures import metric
from tests.support.http_ledger import HttpLedger, Rows, Sent, read_lines, read_tables
from tests.support.http_producers import FORMS, frame, places_of
from tests.support.raw_http import Cut, RawClient
from tests.support.serving import Server, serving, wait_for

Leaving = Literal["close", "reset", "half"]
TOPICS = {"cut": 3}
#: Every format whose request is one unit.
UNITS = [form for form in FORMS if form != "v3"]
#: Closing with this drops what the other side has not read yet.
RESET = struct.pack("ii", 1, 0)


class Cutter:
    """Sends requests in part, and knows what of them may be stored."""

    def __init__(self, server: Server, root: Path) -> None:
        self.server = server
        self.root = root
        self.ledger = HttpLedger()
        self._numbers = count()

    def request(self, form: str, size: int, *, chunked: bool = False) -> tuple[Sent, bytes]:
        how, number = FORMS[form], next(self._numbers)
        values = [b'"%d.%d"' % (number, index) for index in range(1 if form.startswith("octets") else size)]
        headers, body = how.encode(values)
        path = how.path.format(topic="cut") + how.query
        sent = self.ledger.sending(f"{form} {number}", "cut", values)
        return sent, frame_chunked(path, headers, body) if chunked else frame("POST", path, headers, body)

    def leave(self, client: RawClient, how: Leaving) -> None:
        if how == "half":
            client.finish()
            with contextlib.suppress(ConnectionResetError):
                client.read_to_end()
        elif how == "reset":
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        client.socket.close()

    def held(self) -> dict[tuple[str, int], Rows]:
        return read_lines(self.server.url, TOPICS)

    def is_idle(self) -> bool:
        """Nobody is connected but who asks, so every cut request has ended."""
        return metric(self.server, "lakelog_http_connections") == 1


@pytest.fixture(scope="module")
def cutter(tmp_path_factory: pytest.TempPathFactory) -> Generator[Cutter]:
    root = tmp_path_factory.mktemp("cut") / "root"
    with serving(root) as server:
        made = httpx.put(f"{server.url}/topics/cut", json={"partitions": 3})
        assert made.status_code == 201
        cutter = Cutter(server, root)
        yield cutter
        wait_for(cutter.is_idle, "that all connections are closed")
        cutter.ledger.check(cutter.held())
        assert server.terminate() == 0
        assert "Traceback" not in server.stderr
    cutter.ledger.check(read_tables(root, TOPICS))


FEW = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
REQUESTS = {"form": st.sampled_from(UNITS), "size": st.sampled_from([1, 3, 200]), "chunked": st.booleans()}


@FEW
@given(**REQUESTS, at=st.floats(0, 1, exclude_max=True), how=st.sampled_from(["close", "reset", "half"]))
@example(form="lines", size=3, chunked=False, at=0.999999, how="half")
@example(form="arrow", size=200, chunked=True, at=0.999999, how="close")
def test_of_a_request_that_is_cut_nothing_is_stored(
    cutter: Cutter, form: str, size: int, chunked: bool, at: float, how: Leaving
):
    sent, request = cutter.request(form, size, chunked=chunked)
    cutter.ledger.refused(sent)
    with RawClient(cutter.server.port) as client:
        client.send(request[: int(len(request) * at)])
        cutter.leave(client, how)


@FEW
@given(**REQUESTS, cuts=st.lists(st.floats(0, 1), max_size=4))
def test_a_request_that_comes_in_pieces_is_stored_as_one(
    cutter: Cutter, form: str, size: int, chunked: bool, cuts: list[float]
):
    sent, request = cutter.request(form, size, chunked=chunked)
    with RawClient(cutter.server.port) as client:
        places = sorted({0, len(request), *(int(len(request) * cut) for cut in cuts)})
        for start, end in pairwise(places):
            client.send(request[start:end])
            time.sleep(0.001)  # so that it is read apart; not what the test depends on
        answer = client.read_answer()
        if "acks=0" in FORMS[form].query:
            assert answer.status == 202
        else:
            assert answer.status == 200
            cutter.ledger.answered(sent, places_of(answer.body))


@FEW
@given(**REQUESTS, how=st.sampled_from(["close", "reset", "half"]), more=st.binary(max_size=20))
def test_of_a_client_that_leaves_at_once_all_is_stored_or_nothing(
    cutter: Cutter, form: str, size: int, chunked: bool, how: Leaving, more: bytes
):
    """A piece of a next request behind it changes nothing. The ledger holds it to all or nothing."""
    _, request = cutter.request(form, size, chunked=chunked)
    with RawClient(cutter.server.port) as client:
        client.send(request + more)
        cutter.leave(client, how)


def test_large_requests_that_are_cut_leave_nothing_and_no_memory_held(cutter: Cutter):
    value = b'"' + b"x" * 1000 + b'"'
    body = b"\n".join([value] * 10_000)
    request = frame("POST", "/topics/cut", {"Content-Type": "application/x-ndjson"}, body)
    for number in range(20):
        with RawClient(cutter.server.port) as client:
            with contextlib.suppress(ConnectionResetError, BrokenPipeError):
                client.send(request[: len(request) * (number + 1) // 21])
            cutter.leave(client, ("close", "reset", "half")[number % 3])
    wait_for(cutter.is_idle, "that all connections are closed")
    assert value not in {each for rows in cutter.held().values() for _, each in rows}
    wait_for(lambda: metric(cutter.server, "lakelog_http_bodies_bytes") == 0, "that no memory is held")


def test_half_closed_is_not_gone(cutter: Cutter):
    """A client that ends its side and waits is answered."""
    sent, request = cutter.request("lines", 3)
    with RawClient(cutter.server.port) as client:
        client.send(request)
        client.finish()
        answer = client.read_answer()
        assert answer.status == 200
        cutter.ledger.answered(sent, places_of(answer.body))


def test_who_goes_away_while_it_waits_for_records_costs_nothing_more(cutter: Cutter):
    path = "/topics/cut/partitions/0/records?offset=latest&timeout=60000"
    clients = [RawClient(cutter.server.port) for _ in range(50)]
    for client in clients:
        client.send(frame("GET", path))
    wait_for(lambda: metric(cutter.server, "lakelog_http_open_polls") == 50, "50 polls")
    for number, client in enumerate(clients):
        with contextlib.suppress(Cut):
            cutter.leave(client, ("close", "reset")[number % 2])
    wait_for(lambda: metric(cutter.server, "lakelog_http_open_polls") == 0, "no poll")
    wait_for(cutter.is_idle, "that all connections are closed")


def frame_chunked(path: str, headers: dict[str, str], body: bytes) -> bytes:
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n{fields}\r\n".encode()
    pieces = [body[at : at + 50] for at in range(0, len(body), 50)]
    return head + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
