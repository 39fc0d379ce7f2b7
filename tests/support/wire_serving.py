"""An ASGI app on the wire, on a port of its own, and small apps to put there.

Time stands still for what is served, and goes by when a test says so: nobody is cut off because the machine was busy.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import uvloop
from uvicorn.server import ServerState

from ingest_api.http1 import WireCounts, WireLimits, protocol_class
from tests.support.raw_http import DEADLINE_S, RawClient
from tests.support.serving import wait_for

PATIENT = WireLimits(sweep_s=0.05)
#: Deadlines that a test can wait for, where time does go by.
HASTY = WireLimits(
    idle_first_s=0.3,
    head_s=0.3,
    body_grace_s=0.3,
    keep_alive_s=0.3,
    write_stall_s=0.3,
    linger_s=0.3,
    sweep_s=0.05,
)


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

    def __init__(
        self,
        app: Any,
        limits: WireLimits,
        make_loop: Callable[[], asyncio.AbstractEventLoop],
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._now = 0.0
        self.counts = WireCounts()
        self.state = ServerState()
        self.complaints: list[dict[str, Any]] = []
        self._loop = make_loop()
        self._loop.set_exception_handler(lambda _, context: self.complaints.append(context))
        kind: Any = protocol_class(limits, self.counts, clock or (lambda: self._now))
        self._sweep = kind.wire.sweep
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

    def pass_by(self, seconds: float) -> None:
        """Let so much time go by. What each connection is at is seen before that, and looked at after it."""

        async def turn() -> None:
            self._sweep.sweep()
            self._now += seconds
            self._sweep.sweep()

        self.act(turn())

    def shutdown(self) -> None:
        """What the server does at SIGTERM."""

        async def shut() -> None:
            self._listener.close()
            for connection in list(self.state.connections):
                connection.shutdown()

        self.act(shut())

    def client(self, **options: Any) -> RawClient:
        return RawClient(self.port, **options)

    def connection(self) -> Any:
        """The only one there is."""
        (connection,) = wait_for(lambda: list(self.state.connections), "a connection")
        return connection

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
def serve(
    app: Any,
    loop: str = "uvloop",
    limits: WireLimits = PATIENT,
    *,
    clock: Callable[[], float] | None = None,
    **changes: Any,
) -> Generator[Served]:
    """Where no `clock` is given time stands still, but for `pass_by`."""
    served = Served(app, replace(limits, **changes), LOOPS[loop], clock)
    try:
        yield served
    finally:
        served.stop()


def fill(served: Served, client: RawClient, data: bytes = b"a" * 65536) -> int:
    """Send this over and over until nobody takes any more; how many bytes that were."""
    connection = served.connection()
    sent = 0
    client.socket.setblocking(False)
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            sent += client.socket.send(data[sent % len(data) :])
        except BlockingIOError:
            if connection._reading_paused:
                break
            assert time.monotonic() < deadline, "the server reads on and on, or not at all"
            time.sleep(0.001)
    client.socket.settimeout(DEADLINE_S)
    return sent
