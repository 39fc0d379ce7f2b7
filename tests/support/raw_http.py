"""HTTP as bytes: an ASGI app on a port of its own, and a client that sends exactly what it is told."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import uvloop
from uvicorn.server import ServerState

from ingest_api.wire import WireCounts, WireLimits, protocol_class

DEADLINE_S = 10.0
#: Deadlines that a test can wait for.
HASTY = WireLimits(
    idle_first_s=0.3,
    head_s=0.3,
    body_progress_s=0.3,
    keep_alive_s=0.3,
    write_stall_s=0.3,
    linger_s=0.3,
    sweep_s=0.05,
)
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
OLD = b"GET / HTTP/1.0\r\n\r\n"


@dataclass
class Answer:
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Cut(Exception):
    """The connection ended before the answer did."""


class RawClient:
    """One connection. Nothing is added to what is sent, nothing believed of what comes."""

    def __init__(self, port: int, *, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        self._data = b""
        try:
            if receive_buffer is not None:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            self.socket.settimeout(DEADLINE_S)
            self.socket.connect(("127.0.0.1", port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            self.socket.close()  # nobody else knows of it
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def finish(self) -> None:
        """Send no more, but read on."""
        self.socket.shutdown(socket.SHUT_WR)

    def ask(self, data: bytes, *, to_head: bool = False) -> Answer:
        self.send(data)
        return self.read_answer(to_head=to_head)

    def read_answer(self, *, to_head: bool = False) -> Answer:
        head = self.read_until(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        version, status, _ = first.decode().split(" ", 2)
        assert version == "HTTP/1.1"
        headers: dict[str, str] = {}
        for line in lines:
            name, value = line.decode("latin-1").split(": ", 1)
            assert name not in headers, f"{name} comes twice"
            headers[name] = value
        code = int(status)
        if to_head or code < 200 or code in (204, 304):
            return Answer(code, headers, b"")
        if "transfer-encoding" in headers:
            assert headers["transfer-encoding"] == "chunked"
            assert "content-length" not in headers
            return Answer(code, headers, self._read_chunks())
        if "content-length" in headers:
            return Answer(code, headers, self.read_exactly(int(headers["content-length"])))
        return Answer(code, headers, self.read_to_end())

    def read_until(self, mark: bytes) -> bytes:
        while mark not in self._data:
            self._more()
        end = self._data.index(mark) + len(mark)
        found, self._data = self._data[:end], self._data[end:]
        return found

    def read_exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._more()
        found, self._data = self._data[:size], self._data[size:]
        return found

    def read_to_end(self) -> bytes:
        """All that still comes, until the server ends it properly."""
        while piece := self.socket.recv(1 << 16):
            self._data += piece
        found, self._data = self._data, b""
        return found

    def is_ended(self) -> bool:
        """Waits for the end, proper or not; False if there is something to read instead."""
        if self._data:
            return False
        try:
            self._data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return True
        return not self._data

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self.read_until(b"\r\n"), 16):
            body += self.read_exactly(size)
            assert self.read_exactly(2) == b"\r\n"
        assert self.read_exactly(2) == b"\r\n"
        return body

    def _more(self) -> None:
        try:
            piece = self.socket.recv(1 << 16)
        except ConnectionResetError as error:
            raise Cut(self._data) from error
        if not piece:
            raise Cut(self._data)
        self._data += piece


@dataclass
class Recorder:
    """An app that remembers every request, and answers with what it read."""

    seen: list[tuple[str, bytes, bytes]] = field(default_factory=list)
    scopes: list[dict[str, Any]] = field(default_factory=list)
    gone: int = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        self.scopes.append(scope)
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.gone += 1
                return
            body += message["body"]
            more = message["more_body"]
        self.seen.append((scope["method"], scope["raw_path"], body))
        await reply(send, b"%b %b %b" % (scope["method"].encode(), scope["raw_path"], body))


async def reply(send: Any, body: bytes, status: int = 200, headers: Any = ()) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


def answering(*messages: Any) -> Any:
    """An app that sends these."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    return app


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": headers}


def piece(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


class _Config:
    loaded = True

    def __init__(self, app: Any) -> None:
        self.loaded_app = app

    def load(self) -> None: ...


class Served:
    """An app on the wire, in a loop and a thread of its own."""

    def __init__(self, app: Any, limits: WireLimits, make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
        self.counts = WireCounts()
        self.state = ServerState()
        self.complaints: list[dict[str, Any]] = []
        self._loop = make_loop()
        self._loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        kind: Any = protocol_class(limits, self.counts)
        config = _Config(app)
        started = threading.Event()

        def run() -> None:
            asyncio.set_event_loop(self._loop)
            self._loop.call_soon(started.set)
            self._loop.run_forever()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert started.wait(DEADLINE_S)

        async def listen() -> asyncio.Server:
            made = self._loop.create_server(
                lambda: kind(config, self.state, {"shared": True}, self._loop), "127.0.0.1", 0, backlog=2048
            )
            return await made

        self._listener = self.act(listen())
        self.port: int = self._listener.sockets[0].getsockname()[1]

    def act(self, doing: Awaitable[Any]) -> Any:
        """Do something in the loop, and wait for it."""

        async def do() -> Any:
            return await doing

        return asyncio.run_coroutine_threadsafe(do(), self._loop).result(DEADLINE_S)

    def shutdown(self) -> None:
        """What the server does at SIGTERM."""

        async def shut() -> None:
            self._listener.close()
            for connection in list(self.state.connections):
                connection.shutdown()

        self.act(shut())

    def client(self, **options: Any) -> RawClient:
        return RawClient(self.port, **options)

    def stop(self) -> None:
        async def end() -> None:
            self._listener.close()
            for connection in list(self.state.connections):
                connection._transport.abort()
            for task in list(self.state.tasks):
                task.cancel()

        self.act(end())
        wait_for(lambda: not self.state.tasks and not self.state.connections, "the end of all requests")
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()
        assert self.complaints == []


LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@contextmanager
def serve(app: Any, loop: str = "uvloop", limits: WireLimits = HASTY, **changes: Any) -> Generator[Served]:
    served = Served(app, replace(limits, **changes), LOOPS[loop])
    try:
        yield served
    finally:
        served.stop()


def wait_for(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Poll until it holds."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.005)
    return found
