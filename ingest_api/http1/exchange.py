"""A request and its answer, as ASGI has them. Knows the app; of the socket only what its connection offers."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol

from ingest_api.http1.asgi import AT_ONCE, App, Message, Scope
from ingest_api.http1.request_head import Head
from ingest_api.http1.response_bytes import CONTINUE, AnswerHead, frame_chunk, head_of_whole, plan_answer
from ingest_api.http1.send_buffer import Outlet

_log = logging.getLogger("lakelog.wire")
_DISCONNECT: Final[Message] = {"type": "http.disconnect"}
#: Memory of a piece of a body beside its bytes.
_PIECE_BYTES: Final = 64
#: A body from this size on is not copied into one block with its head and framing.
_LARGE: Final = 64 * 1024


class Line(Protocol):
    """Calls of an exchange to its connection."""

    @property
    def draining(self) -> bool: ...

    def extra_headers(self) -> bytes: ...

    def make_room(self) -> None: ...

    def answered(self, exchange: Exchange, *, keep_alive: bool) -> None: ...

    def failed(self, exchange: Exchange) -> None: ...

    def abandoned(self, exchange: Exchange) -> None: ...

    def ran(self, exchange: Exchange) -> None: ...


class Exchange:
    """Used by one event loop. It never cancels the app: a request that has begun is finished."""

    __slots__ = (
        "_head",
        "_left",
        "_line",
        "_loop",
        "_outlet",
        "_parts",
        "_request",
        "_start",
        "_told_end",
        "_waiters",
        "answered",
        "expects_continue",
        "gone",
        "hung_up",
        "part",
        "task",
        "unread",
        "whole",
    )

    def __init__(self, line: Line, outlet: Outlet, loop: asyncio.AbstractEventLoop, request: Head) -> None:
        self._line = line
        self._outlet = outlet
        self._loop = loop
        self._request = request
        #: The client waits for `100 Continue` before it sends its body.
        self.expects_continue = request.expects_continue
        self.task: asyncio.Task[None] | None = None
        self._parts: list[bytes] = []
        self.unread = 0
        #: All of the request's body has arrived.
        self.whole = False
        self.part = 0
        self._told_end = False
        self._waiters: list[asyncio.Future[None]] = []
        self._start: Message | None = None
        self._head: AnswerHead | None = None
        self._left: int | None = None
        self.answered = False
        #: The client has ended its side and is most likely gone; an answer is sent all the same.
        self.hung_up = False
        #: The connection is lost or given up: an answer is discarded.
        self.gone = False

    @property
    def started(self) -> bool:
        """The head of the answer is written."""
        return self._head is not None

    @property
    def is_head(self) -> bool:
        return self._request.method == "HEAD"

    @property
    def awaited(self) -> bool:
        """The app waits for more of the body."""
        return bool(self._waiters) and not self.whole and not self.expects_continue

    def take(self, piece: bytes, *, whole: bool) -> None:
        """Take a piece of the body that has arrived; `whole`: it is the last."""
        self.whole = whole
        if piece:
            self.expects_continue = False
            self._parts.append(piece)
            self.unread += len(piece) + _PIECE_BYTES
        if self._waiters:
            self._wake()

    def _wake(self) -> None:
        """Wake the waiting calls of `receive` to check again."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def hang_up(self) -> None:
        """The client sends no more: `receive` returns a disconnect."""
        self.hung_up = True
        self._wake()

    def lose(self) -> None:
        """The answer cannot be delivered: what is sent from now on is discarded."""
        self.gone = True
        self.hang_up()

    async def run(self, app: App, scope: Scope) -> None:
        scope["extensions"][AT_ONCE] = self
        try:
            await app(scope, self.receive, self.send)
        except asyncio.CancelledError:
            self._line.failed(self)
            raise
        except Exception:  # noqa: BLE001 - after any error the client is answered, or cut off
            _log.exception("the app failed at %s", self._request.raw_path)
            self._line.failed(self)
        else:
            if self.hung_up and not self.answered:
                self._line.abandoned(self)
            elif not self.answered:
                _log.error("the app left %s without a whole answer", self._request.raw_path)
                self._line.failed(self)
        finally:
            self._line.ran(self)

    async def receive(self) -> Message:
        while True:
            if not self.answered:
                if self._parts or (self.whole and not self._told_end):
                    return self._next_piece()
                if self.expects_continue and not self.whole and not self.started:
                    self.expects_continue = False
                    self._outlet.write(CONTINUE)
            if self.answered or self.hung_up:
                return _DISCONNECT.copy()
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def _next_piece(self) -> Message:
        body = self._take_parts()
        if self.whole:
            self._told_end = True
        else:
            self._line.make_room()
        return {"type": "http.request", "body": body, "more_body": not self.whole}

    @property
    def notes(self) -> dict[str, Any]:
        return self._request.notes

    def take_body(self) -> bytes | None:
        if not self.whole or self._told_end:
            return None
        self._told_end = True
        return self._take_parts()

    def _take_parts(self) -> bytes:
        parts = self._parts
        if parts:
            self._parts = []
            self.unread = 0
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def answer(self, status: int, fields: bytes, body: bytes) -> bool:
        if self._start is not None or self.answered:
            raise RuntimeError("an answer is started twice")
        if self.gone:
            self.answered = True
            return True
        keep_alive, is_old, more = self._may_go_on, self._request.version == "1.0", self._line.extra_headers()
        head = head_of_whole(status, fields, more, len(body), is_old=is_old, keep_alive=keep_alive)
        self._write(head, b"" if self.is_head else body)
        self._end(keep_alive=keep_alive)
        return not self._outlet.paused

    async def drain(self) -> None:
        await self._outlet.drain()

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            if self._start is not None:
                raise RuntimeError("an answer is started twice")
            self._start = message
            return
        if kind != "http.response.body" or self._start is None or self.answered:
            raise RuntimeError(f"the message {kind} is out of turn")
        last = not message.get("more_body", False)
        if self.gone:
            self.answered = last
        else:
            self._put(self._start, message.get("body", b""), last=last)
        if self._outlet.paused:
            await self._outlet.drain()
        elif not last:
            await asyncio.sleep(0)  # an endless stream must yield to other tasks, however fast its reader is

    def _put(self, start: Message, body: bytes, *, last: bool) -> None:
        before = b""
        head = self._head
        if head is None:
            head = self._begin(start, len(body) if last else None)
            before = head.data
        after = b""
        if head.bodiless:
            body = b""
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (last and self._left):
                raise RuntimeError("the answer is not as long as its content-length says")
        elif head.chunked:
            size, after = frame_chunk(len(body), last=last)
            before += size
        self._head = head
        self._write(before, body, after)
        if last:
            self._end(keep_alive=head.keep_alive)

    def _write(self, before: bytes, body: bytes, after: bytes = b"") -> None:
        if len(body) < _LARGE:
            self._outlet.write(before + body + after)
        else:
            self._outlet.write_large(before, body, after)

    def _end(self, *, keep_alive: bool) -> None:
        """The last of the answer is written."""
        self.answered = True
        if self._waiters:
            self._wake()
        self._line.answered(self, keep_alive=keep_alive)

    @property
    def _may_go_on(self) -> bool:
        """Keep-alive is possible; not with an unfinished body, whose rest could not be told from the next request."""
        return self._request.keep_alive and self.whole and not self._line.draining

    def _begin(self, start: Message, whole: int | None) -> AnswerHead:
        request = self._request
        head = plan_answer(
            start["status"],
            start.get("headers", ()),
            self._line.extra_headers(),
            whole,
            is_head=request.method == "HEAD",
            is_old=request.version == "1.0",
            keep_alive=self._may_go_on,
        )
        self._left = head.left
        return head
