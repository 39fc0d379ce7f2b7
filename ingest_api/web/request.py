"""A request as a route sees it, and an answer as a route gives it. Knows ASGI; must not know any route."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Protocol, TypeVar, cast

import msgspec

from ingest_api.http1.asgi import AT_ONCE, DirectReply
from ingest_api.web.body_pool import Room
from ingest_api.web.errors import Refusal
from ingest_api.web.parameters import Parameter, parse_query

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]
#: Some of a body: anything that has bytes and its length.
Piece = bytes | memoryview

JSON: Final = b"application/json"
_BODILESS: Final = frozenset((204, 304))
_NOTHING: Final[Mapping[str, Any]] = {}


class BodyReader(Protocol):
    """Reader of bodies within the limits."""

    def take_small(self, call: Call) -> bytes | None: ...

    async def read(self, call: Call) -> bytes: ...


class Call:
    """A request. `path` holds the parameters of its path, decoded; `room` is the memory that its body takes.

    `at_once` is the shortcut that `http1` offers beyond ASGI; `notes` caches values derived from the same head, without
    its `producer-seq`.
    """

    __slots__ = ("_bodies", "at_once", "notes", "path", "receive", "room", "scope")

    def __init__(self, scope: Scope, receive: Receive, path: Mapping[str, str], bodies: BodyReader) -> None:
        self.scope = scope
        self.receive = receive
        self.path = path
        self.room: Room | None = None
        self._bodies = bodies
        at_once: DirectReply | None = scope.get("extensions", _NOTHING).get(AT_ONCE)
        self.at_once = at_once
        self.notes: dict[str, Any] = {} if at_once is None else at_once.notes

    def cached(self, name: str, work_out: Callable[[Call], T]) -> T:
        """Return a value derived from this head, cached; never derive it from `producer-seq`."""
        try:
            return self.notes[name]
        except KeyError:
            found = self.notes[name] = work_out(self)
            return found

    @property
    def method(self) -> str:
        return self.scope["method"]

    @property
    def headers(self) -> Sequence[Header]:
        return self.scope["headers"]

    def header(self, name: bytes) -> bytes | None:
        """Value of a single-valued header. A repeated header is rejected with 400."""
        found: bytes | None = None
        for given, value in self.scope["headers"]:
            if given == name:
                if found is not None:
                    raise Refusal(400, f"the header {name.decode()} is given twice")
                found = value
        return found

    def list_header(self, name: bytes) -> bytes | None:
        """Value of a list header; several lines are joined."""
        found = [value for given, value in self.scope["headers"] if given == name]
        return b", ".join(found) if found else None

    def query(self, declared: Sequence[Parameter]) -> dict[str, Any]:
        return parse_query(self.scope["query_string"], declared)

    def small_body(self) -> bytes | None:
        """Return the body if it is plain, small, and has arrived; else None: call `body`."""
        return self._bodies.take_small(self)

    async def body(self) -> bytes:
        """Read the whole body, decoded, within the limits."""
        return await self._bodies.read(self)


class Reply(msgspec.Struct):
    """An answer: whole, or in pieces as they are made. `done` is called after it was sent, or failed to be."""

    status: int = 200
    body: bytes | AsyncGenerator[bytes] | AsyncGenerator[Piece] = b""
    content_type: bytes = JSON
    headers: Sequence[Header] = ()
    done: Callable[[], None] | None = None


def json_reply(
    content: object, status: int = 200, *, content_type: bytes = JSON, headers: Sequence[Header] = ()
) -> Reply:
    return Reply(status, msgspec.json.encode(content) + b"\n", content_type, headers)


def is_plain(reply: Reply) -> bool:
    """True if `answer_at_once` can send it: whole, with a body, and without headers of its own."""
    return (
        not reply.headers and type(reply.body) is bytes and reply.status not in _BODILESS and bool(reply.content_type)
    )


def answer_at_once(at_once: DirectReply, reply: Reply, request_id: bytes) -> bool:
    """Send a plain reply; False if the caller must await `drain`."""
    fields = b"x-request-id: %b\r\ncontent-type: %b\r\n" % (request_id, reply.content_type)
    return at_once.answer(reply.status, fields, cast("bytes", reply.body))


async def send_reply(send: Send, reply: Reply, more: Sequence[Header], *, bodiless: bool = False) -> None:
    """Send an answer; a streamed one piece by piece, as fast as its reader takes it.

    For a `bodiless` answer, as to HEAD, no piece of a streamed body is made.
    """
    body = reply.body
    headers: list[Header] = [*more, *reply.headers]
    if reply.status != 204 and reply.content_type:
        headers.append((b"content-type", reply.content_type))
    if isinstance(body, bytes):
        if reply.status != 304:  # 304 has no body, so its length would be wrong
            headers.append((b"content-length", b"%d" % len(body)))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    async with aclosing(body) as pieces:
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        if not bodiless:
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
