"""One connection: bytes in, requests to the app in their order, answers out.

It does what `reader`, `answers` and `deadlines` decide. It must not know any route. At any time at most one of its
requests is in work; what was sent ahead waits as bytes.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any, ClassVar, Final, cast

from ingest_api.wire.answers import answer_failure, refuse
from ingest_api.wire.asgi import App, ServerConfig, ServerState
from ingest_api.wire.deadlines import Phase, Seen, Verdict, Watched
from ingest_api.wire.exchange import Exchange
from ingest_api.wire.faults import BODY_TOO_SLOW, HEAD_TOO_SLOW, TOO_MANY_CONNECTIONS, BadRequest, Fault
from ingest_api.wire.head import Head
from ingest_api.wire.reader import RequestReader
from ingest_api.wire.shared import Wire

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}
#: Closing with this tells the peer that what it got is not all.
_RESET: Final = struct.pack("ii", 1, 0)


class Connection(asyncio.Protocol):
    """One connection of one loop. A subclass says which `wire` it belongs to."""

    __slots__ = (
        "_app",
        "_client",
        "_counts",
        "_drainers",
        "_exchange",
        "_lingering",
        "_local",
        "_loop",
        "_over",
        "_peer_done",
        "_reader",
        "_reading_paused",
        "_scheme",
        "_sent",
        "_serial",
        "_server",
        "_state",
        "_transport",
        "watched",
        "write_paused",
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
        self._drainers: list[asyncio.Future[None]] = []
        self.watched = Watched()
        self.write_paused = False
        self._reading_paused = False
        # The client has ended its side.
        self._peer_done = False
        # No further request is read; what comes is dropped.
        self._over = False
        self._lingering = False
        self._serial = 0
        self._sent = 0

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._client = _address(transport.get_extra_info("peername"))
        self._local = _address(transport.get_extra_info("sockname"))
        self._scheme = "https" if transport.get_extra_info("sslcontext") else "http"
        limits, crowd = self.wire.limits, len(self.wire.sweep)
        self._transport.set_write_buffer_limits(high=limits.unsent_bytes)
        self._bound_unsent(limits.unsent_bytes)
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
        self._over = True
        self._server.connections.discard(self)
        self.wire.sweep.discard(self)
        self._counts.open -= 1
        self._reader.drop()
        self._lose_exchange()
        self.write_paused = False
        self._wake_drainers()

    def data_received(self, data: bytes) -> None:
        self._counts.bytes_in += len(data)
        if self._over:
            return
        if self._exchange is None and not self.write_paused:
            repeated = self._reader.read_repeated(data)
            if repeated is not None:
                head, body = repeated
                self._begin(head).take(body, whole=True)
                return
        self._reader.give(data)
        self._read()

    def eof_received(self) -> bool:
        """True keeps our side open: who sends no more may still read."""
        self._peer_done = True
        exchange = self._exchange
        if self._over:
            return False
        if exchange is None:
            return self.write_paused and self._reader.ahead > 0
        if not exchange.whole:
            self._over = True
            self._lose_exchange()
            return False
        exchange.hang_up()
        return self._scheme == "http"

    def pause_writing(self) -> None:
        self.write_paused = True

    def resume_writing(self) -> None:
        self.write_paused = False
        self._wake_drainers()
        self._read()

    def shutdown(self) -> None:
        """Called once by the server: what runs is finished, nothing new begins."""
        self.wire.draining = True
        if self._exchange is None and not self._over:
            self._finish(linger=False)

    # What the sweep calls.

    def look(self) -> Seen:
        unsent = self._transport.get_write_buffer_size()
        mark = self._serial, self._reader.body_bytes // self.wire.limits.body_progress_bytes
        return Seen(self._phase(unsent), mark, self._sent - unsent if unsent else None)

    def end(self, verdict: Verdict) -> None:
        if verdict is Verdict.REFUSE_HEAD:
            self._refuse(HEAD_TOO_SLOW)
        elif verdict is Verdict.REFUSE_BODY:
            self._refuse(BODY_TOO_SLOW)
        elif verdict is Verdict.ABORT:
            self._abort("write_stall")
        else:
            self._counts.cut["linger" if self._lingering else "idle"] += 1
            self._over = True
            self._transport.close()

    # What the exchange calls.

    @property
    def draining(self) -> bool:
        return self.wire.draining

    def extra_headers(self) -> bytes:
        return self.wire.render(self._server.default_headers)

    def write(self, data: bytes) -> None:
        if data and not self._over:
            self._sent += len(data)
            self._counts.bytes_out += len(data)
            self._transport.write(data)

    def write_large(self, *pieces: bytes) -> None:
        if not self._over:
            size = sum(map(len, pieces))
            self._sent += size
            self._counts.bytes_out += size
            self._transport.writelines(pieces)

    async def drain(self) -> None:
        """Wait until the reader has taken enough, or is gone."""
        while self.write_paused:
            drainer: asyncio.Future[None] = self._loop.create_future()
            self._drainers.append(drainer)
            await drainer

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
        """The app did not answer, or not to the end."""
        self._counts.failed += 1
        if exchange is not self._exchange:
            return
        if exchange.started:
            self._abort("unfinished")
            return
        self.write(answer_failure(self.extra_headers(), is_head=exchange.is_head))
        self._lose_exchange()
        self._finish(linger=True)

    def abandoned(self, exchange: Exchange) -> None:
        """The app gave up, as the client seemed to be gone."""
        if exchange is self._exchange:
            self._abort("unfinished")

    def ran(self, exchange: Exchange) -> None:
        if exchange.task is not None:
            self._server.tasks.discard(exchange.task)
            exchange.task = None

    # What it does.

    def _read(self) -> None:
        """As much as there is and may be read now: of one request, as the next one waits for the answer."""
        try:
            exchange = self._exchange
            if exchange is None and not self._over and not self.write_paused:
                head = self._reader.read_head()
                exchange = self._begin(head) if head is not None else None
            if exchange is not None and not exchange.whole:
                piece = self._reader.read_body()
                exchange.take(piece, whole=not self._reader.in_body)
        except BadRequest as bad:
            self._refuse(bad.fault)
            return
        if self._peer_done and self._exchange is None and not self.write_paused and not self._over:
            self._finish(linger=False)
        else:
            self._pace_reading()

    def _begin(self, head: Head) -> Exchange:
        self._serial += 1
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": head.version,
            "method": head.method,
            "scheme": self._scheme,
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "root_path": "",
            "headers": head.headers.copy(),
            "client": self._client,
            "server": self._local,
            "state": self._state,
            "extensions": {},
        }
        exchange = Exchange(self, self._loop, scope, head)
        self._exchange = exchange
        exchange.task = task = self._loop.create_task(exchange.run(self._app))
        self._server.tasks.add(task)
        return exchange

    def _pace_reading(self) -> None:
        """Read no faster than what is read is taken."""
        if self._over or self._peer_done:
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
        if self._over:
            return Phase.LINGER if self._lingering and not unsent else Phase.WORKING
        if exchange is not None:
            return Phase.BODY if exchange.awaited and not self._reading_paused else Phase.WORKING
        if self.write_paused:
            return Phase.WORKING
        if self._reader.ahead:
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
        self.write(refuse(fault, self.extra_headers(), is_head=is_head))
        self._finish(linger=True)

    def _finish(self, *, linger: bool) -> None:
        """End it after what was written. Closing at once, with bytes unread, would take the answer from its reader."""
        self._over = True
        self._reader.drop()
        if linger and not self._peer_done and self._transport.can_write_eof():
            self._lingering = True
            self._transport.write_eof()
            if self._reading_paused:
                self._reading_paused = False
                self._transport.resume_reading()
        else:
            self._transport.close()

    def _bound_unsent(self, most: int) -> None:
        """Keep the kernel from taking megabytes for a slow reader, which would hide how slow it is, too."""
        sock = self._transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, most)

    def _abort(self, reason: str) -> None:
        """End it so that nobody takes for whole what is not."""
        self._counts.cut[reason] += 1
        self._over = True
        self._lose_exchange()
        sock = self._transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def _lose_exchange(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.lose()

    def _wake_drainers(self) -> None:
        drainers, self._drainers = self._drainers, []
        for drainer in drainers:
            if not drainer.done():
                drainer.set_result(None)


def _address(name: Any) -> tuple[str, int] | None:
    """A socket's name as ASGI has it; that of a Unix socket is a path, or nothing."""
    return None if not name or isinstance(name, (str, bytes)) else (name[0], name[1])
