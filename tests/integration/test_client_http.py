"""The network of the clients: what of a failure proves that nothing was sent, and what leaves it unknown."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Generator
from typing import Any

import pytest

import lakelog
from lakelog.transport.exchange import Answer, AnswerLost, NotSent, Outcome, Request
from lakelog.transport.http import AsyncHttpTransport, HttpTransport

DEADLINE_S = 60.0
Ask = Callable[[str, Request], Outcome]


def ask_in_a_thread(address: str, request: Request) -> Outcome:
    transport = HttpTransport(address, "tester", 2)
    try:
        return transport.send(request)
    finally:
        transport.close()


def ask_in_a_task(address: str, request: Request) -> Outcome:
    async def main() -> Outcome:
        transport = AsyncHttpTransport(address, "tester", 2)
        try:
            return await transport.send(request)
        finally:
            await transport.close()

    return asyncio.run(main())


@pytest.fixture(params=[ask_in_a_thread, ask_in_a_task], ids=["threads", "tasks"])
def ask(request: pytest.FixtureRequest) -> Ask:
    return request.param


class OneShot:
    """A server that reads one request whole, says what it is told to, and closes."""

    def __init__(self) -> None:
        self.says = b""
        self.hangs = False
        self.heard = b""
        self.released = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self.released.set()
        self._listener.close()
        self._thread.join(DEADLINE_S)

    def _serve(self) -> None:
        self._listener.settimeout(DEADLINE_S)
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        with connection:
            while not self.heard.endswith(b"the end" if self.heard.startswith(b"POST") else b"\r\n\r\n"):
                piece = connection.recv(1 << 16)
                if not piece:
                    return
                self.heard += piece
            connection.sendall(self.says)
            if self.hangs:
                self.released.wait(DEADLINE_S)


@pytest.fixture
def server() -> Generator[OneShot]:
    server = OneShot()
    yield server
    server.close()


def test_an_answer_comes_with_its_status_its_headers_in_lower_case_and_its_body(ask: Ask, server: OneShot):
    server.says = b"HTTP/1.1 418 Teapot\r\nX-Request-ID: abc\r\nContent-Length: 2\r\n\r\nhi"
    outcome = ask(server.address, Request("POST", "/topics/t?acks=0", {"Producer-Id": "p"}, b"body, the end"))
    assert isinstance(outcome, Answer)
    assert (outcome.status, outcome.headers["x-request-id"], outcome.body) == (418, "abc", b"hi")
    head, _, body = server.heard.partition(b"\r\n\r\n")
    first, *fields = head.decode().split("\r\n")
    assert first == "POST /topics/t?acks=0 HTTP/1.1"
    assert body == b"body, the end"
    given = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
    assert given["producer-id"] == "p"
    assert given["user-agent"] == f"tester lakelog/{lakelog.__version__}"
    assert given["content-length"] == "13"


def test_the_path_of_an_address_comes_before_that_of_a_request(ask: Ask, server: OneShot):
    server.says = b"HTTP/1.1 204 No Content\r\n\r\n"
    assert isinstance(ask(f"{server.address}/behind/a/proxy", Request("GET", "/topics")), Answer)
    assert server.heard.startswith(b"GET /behind/a/proxy/topics HTTP/1.1")


def test_nobody_who_listens_means_not_sent(ask: Ask):
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{nobody_listens.getsockname()[1]}"
        assert isinstance(ask(address, Request("GET", "/")), NotSent)


def test_a_name_that_nobody_knows_means_not_sent(ask: Ask):
    assert isinstance(ask("http://nowhere.invalid:1", Request("GET", "/", timeout_s=5.0)), NotSent)


@pytest.mark.parametrize(
    "says",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
    ],
    ids=["nothing", "half a line", "half a body", "half a chunk", "no HTTP", "no gzip"],
)
def test_an_answer_that_does_not_come_whole_is_lost(ask: Ask, server: OneShot, says: bytes):
    server.says = says
    outcome = ask(server.address, Request("GET", "/"))
    assert isinstance(outcome, AnswerLost)
    assert outcome.why


def test_an_answer_that_does_not_come_in_time_is_lost(ask: Ask):
    for time_s in (0.1, 10.0):  # a machine that stands still for the first may not have connected
        server = OneShot()
        server.hangs = True
        outcome = ask(server.address, Request("GET", "/", timeout_s=time_s))
        server.close()
        if server.heard:
            break
    assert isinstance(outcome, AnswerLost)


def test_a_redirection_is_an_answer_and_is_not_followed(ask: Ask, server: OneShot):
    server.says = b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://elsewhere.invalid/\r\nContent-Length: 0\r\n\r\n"
    outcome: Any = ask(server.address, Request("POST", "/", {}, b"the end"))
    assert outcome.status == 307
