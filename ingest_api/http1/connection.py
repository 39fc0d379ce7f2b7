"""A connection: bytes in, requests to the app in their order, answers out.

It acts on the decisions of `request_reader`, `response_bytes` and `deadlines`. It must not know any route. At most one
of its requests is processed at a time; requests sent ahead wait as bytes.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, cast

from ingest_api.http1.asgi import App, ServerConfig, ServerState
from ingest_api.http1.body_rate import Progress
from ingest_api.http1.deadlines import Phase, Seen, Verdict, Watched
from ingest_api.http1.exchange import Exchange
from ingest_api.http1.rejections import (
    BODY_TOO_LATE,
    BODY_TOO_SLOW,
    HEAD_TOO_SLOW,
    TOO_MANY_CONNECTIONS,
    BadRequest,
    Fault,
)
from ingest_api.http1.request_head import Head
from ingest_api.http1.request_reader import RequestReader
from ingest_api.http1.response_bytes import answer_failure, refuse
from ingest_api.http1.scopes import Place, address, make_scope
from ingest_api.http1.send_buffer import Outlet
from ingest_api.http1.server_state import Wire


class Connection(asyncio.Protocol):
    """A connection of one event loop. A subclass sets its `wire`."""

    __slots__ = (
        "_app",
        "_counts",
        "_exchange",
        "_loop",
        "_outlet",
        "_peer_done",
        "_place",
        "_reader",
        "_reading_paused",
        "_serial",
        "_server",
        "_state",
        "_transport",
        "watched",
    )
    wire: ClassVar[Wire]

    def __init__(
        self,
        config: ServerConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        if not config.loaded:
            config.load()
        self._app: App = config.loaded_app
        self._server = server_state
        self._state = app_state
        self._loop = _loop or asyncio.get_running_loop()
        self._counts = self.wire.counts
        self._reader = RequestReader(self.wire.limits)
        self._transport = cast("asyncio.Transport", None)
        self._exchange: Exchange | None = None
        self.watched = Watched()
        self._reading_paused = False
        # The client has closed its side for writing.
        self._peer_done = False
        self._serial = 0

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._place = Place(
            scheme="https" if transport.get_extra_info("sslcontext") else "http",
            client=address(transport.get_extra_info("peername")),
            server=address(transport.get_extra_info("sockname")),
            state=self._state,
        )
        limits, crowd = self.wire.limits, len(self.wire.sweep)
        self._outlet = Outlet(self._transport, self._loop, self._counts, limits.unsent_bytes)
        self._server.connections.add(self)
        self.wire.sweep.add(self, self._loop)
        self._counts.open += 1
        self._counts.accepted += 1
        if self.wire.draining:
            self._finish(linger=False)
        elif crowd >= limits.connections + limits.connections // 10 + 1:
            self._abort("crowd")
        elif crowd >= limits.connections:
            self._refuse(TOO_MANY_CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the loop's signature
        self._outlet.over = True
        self._server.connections.discard(self)
        self.wire.sweep.discard(self)
        self._counts.open -= 1
        self._reader.drop()
        self._lose_exchange()
        self._outlet.resume()

    def data_received(self, data: bytes) -> None:
        self._counts.bytes_in += len(data)
        if self._outlet.over:
            return
        if self._exchange is None and not self._outlet.paused:
            repeated = self._reader.read_repeated(data)
            if repeated is not None:
                head, body = repeated
                self._begin(head).take(body, whole=True)
                return
        self._reader.give(data)
        self._read()

    def eof_received(self) -> bool:
        """True keeps our side open: a client that has ended its side may still read."""
        self._peer_done = True
        exchange = self._exchange
        if self._outlet.over:
            return False
        if exchange is None:
            return self._outlet.paused and self._reader.ahead > 0
        if not exchange.whole:
            self._outlet.over = True
            self._lose_exchange()
            return False
        exchange.hang_up()
        return self._place.scheme == "http"

    def pause_writing(self) -> None:
        self._outlet.paused = True

    def resume_writing(self) -> None:
        self._outlet.resume()
        self._read()

    def shutdown(self) -> None:
        """Called once by the server: a running request is finished, no new one begins."""
        self.wire.draining = True
        if self._exchange is None and not self._outlet.over:
            self._finish(linger=False)

    # Called by the sweep.

    def look(self) -> Seen:
        unsent = self._outlet.unsent
        part = 0 if self._exchange is None else self._exchange.part
        mark = Progress(self._serial, part, self._reader.body_bytes)
        return Seen(self._phase(unsent), mark, self._outlet.taken if unsent else None)

    def end(self, verdict: Verdict) -> None:
        if verdict is Verdict.REFUSE_HEAD:
            self._refuse(HEAD_TOO_SLOW)
        elif verdict is Verdict.REFUSE_BODY:
            self._refuse(BODY_TOO_SLOW)
        elif verdict is Verdict.REFUSE_LATE_BODY:
            self._refuse(BODY_TOO_LATE)
        elif verdict is Verdict.ABORT:
            self._abort("write_stall")
        else:
            self._counts.cut["linger" if self._outlet.lingering else "idle"] += 1
            self._outlet.close()

    # Called by a stricter protocol.

    def cut_off(self, reason: str) -> None:
        self._abort(reason)

    # Called by the exchange.

    @property
    def draining(self) -> bool:
        return self.wire.draining

    def extra_headers(self) -> bytes:
        return self.wire.render(self._server.default_headers)

    def make_room(self) -> None:
        self._pace_reading()

    def answered(self, exchange: Exchange, *, keep_alive: bool) -> None:
        self._counts.requests += 1
        self._server.total_requests += 1
        if exchange is not self._exchange:
            return
        self._exchange = None
        if not keep_alive or self.wire.draining:
            self._finish(linger=not exchange.whole or self._reader.ahead > 0)
        elif self._reader.ahead or self._peer_done or self._reading_paused:
            self._read()

    def failed(self, exchange: Exchange) -> None:
        """The app gave no answer, or not the whole of it."""
        self._counts.failed += 1
        if exchange is not self._exchange:
            return
        if exchange.started:
            self._abort("unfinished")
            return
        self._outlet.write(answer_failure(self.extra_headers(), is_head=exchange.is_head))
        self._lose_exchange()
        self._finish(linger=True)

    def abandoned(self, exchange: Exchange) -> None:
        """The app gave up because the client had ended its side."""
        if exchange is self._exchange:
            self._abort("unfinished")

    def ran(self, exchange: Exchange) -> None:
        if exchange.task is not None:
            self._server.tasks.discard(exchange.task)
            exchange.task = None

    # Inner steps.

    def _read(self) -> None:
        """Read as much as has arrived and may be read: of one request, as the next one waits for its answer."""
        try:
            exchange = self._exchange
            if exchange is None and not self._outlet.over and not self._outlet.paused:
                head = self._reader.read_head()
                exchange = self._begin(head) if head is not None else None
            if exchange is not None and not exchange.whole:
                piece = self._reader.read_body()
                exchange.take(piece, whole=not self._reader.in_body)
        except BadRequest as bad:
            self._refuse(bad.fault)
            return
        if self._peer_done and self._exchange is None and not self._outlet.paused and not self._outlet.over:
            self._finish(linger=False)
        else:
            self._pace_reading()

    def _begin(self, head: Head) -> Exchange:
        self._serial += 1
        exchange = Exchange(self, self._outlet, self._loop, head)
        self._exchange = exchange
        exchange.task = task = self._loop.create_task(exchange.run(self._app, make_scope(head, self._place)))
        self._server.tasks.add(task)
        return exchange

    def _pace_reading(self) -> None:
        """Pause reading while too many received bytes wait to be taken."""
        if self._peer_done or self._transport.is_closing():
            return
        exchange, limits = self._exchange, self.wire.limits
        if exchange is not None and not exchange.whole:
            full = exchange.unread > limits.unread_bytes
        else:
            full = self._reader.ahead > limits.ahead_bytes
        if full != self._reading_paused:
            self._reading_paused = full
            if full:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _phase(self, unsent: int) -> Phase:
        exchange = self._exchange
        if self._outlet.over:
            return Phase.LINGER if self._outlet.lingering and not unsent else Phase.WORKING
        if exchange is not None:
            if self._reading_paused or not exchange.awaited:
                return Phase.WORKING
            return Phase.STREAM if exchange.part < 0 else Phase.BODY
        if self._outlet.paused:
            return Phase.WORKING
        if self._reader.in_head:
            return Phase.HEAD
        return Phase.IDLE if self._serial else Phase.FIRST

    def _refuse(self, fault: Fault) -> None:
        self._counts.refused[fault.reason] += 1
        exchange = self._exchange
        if exchange is not None and exchange.started:
            self._abort("unfinished")
            return
        self._lose_exchange()
        is_head = exchange is not None and exchange.is_head
        self._outlet.write(refuse(fault, self.extra_headers(), is_head=is_head))
        self._finish(linger=True)

    def _finish(self, *, linger: bool) -> None:
        """Close, and read no further request; bytes that still arrive are dropped."""
        self._reader.drop()
        if linger and not self._peer_done:
            self._outlet.linger()
            self._pace_reading()
        else:
            self._outlet.close()

    def _abort(self, reason: str) -> None:
        self._counts.cut[reason] += 1
        self._lose_exchange()
        self._outlet.abort()

    def _lose_exchange(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.lose()
