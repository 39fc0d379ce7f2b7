"""One request to an ASGI app with nothing between: its answer comes out piece by piece, as the test takes it.

    async with AsgiCall(app.asgi, "GET", "/topics/orders/records") as call:
        status, headers = await call.head()
        first = await call.piece()

The app is held at each piece until it is taken, as by a client that reads slowly. Leaving is going away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from types import TracebackType
from typing import Any, Self

DEADLINE_S = 40.0

Message = MutableMapping[str, Any]


class AsgiCall:
    """A request; its body is what `body` gives, and more of it where the test says `more` and gives it."""

    def __init__(
        self,
        app: Any,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        more: bool = False,
    ) -> None:
        path, _, query = target.partition("?")
        pairs = [("Host", "lakelog.test"), *(headers.items() if isinstance(headers, Mapping) else headers)]
        if (body or more) and not any(name.lower() == "content-type" for name, _ in pairs):
            pairs.append(("Content-Type", "application/json"))
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "scheme": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), content.encode("latin-1")) for name, content in pairs],
            "server": ("lakelog.test", 80),
            "client": ("127.0.0.1", 1),
        }
        self._app = app
        self._in: asyncio.Queue[Message] = asyncio.Queue()
        self._out: asyncio.Queue[Message | None] = asyncio.Queue()
        self._taken: asyncio.Future[None] | None = None
        self._head: tuple[int, dict[str, str]] | None = None
        self._gone = asyncio.Event()
        self.give(body, more=more)

    @property
    def pieces_made(self) -> bool:
        """Whether the app waits for a piece to be taken."""
        return not self._out.empty()

    def give(self, body: bytes, *, more: bool = False) -> None:
        self._in.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self) -> None:
        """The client goes away."""
        self._gone.set()
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)

    async def head(self) -> tuple[int, dict[str, str]]:
        if self._head is None:
            message = await self._next()
            assert message is not None, "the app answered nothing"
            assert message["type"] == "http.response.start"
            fields = {name.decode(): content.decode() for name, content in message["headers"]}
            self._head = message["status"], fields
        return self._head

    async def piece(self) -> bytes | None:
        """The next piece of the body; None when it has ended."""
        await self.head()
        message = await self._next()
        if message is None:
            return None
        return message["body"] if message.get("more_body") or message["body"] else await self.piece()

    async def body(self) -> bytes:
        """All that is left of it."""
        found = b""
        while (piece := await self.piece()) is not None:
            found += piece
        return found

    async def ended(self) -> None:
        """The app is done with the request, whether it answered or not."""
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.wait({self.task})
        if not self.task.cancelled() and (error := self.task.exception()) is not None:
            raise error

    async def __aenter__(self) -> Self:
        self.task = asyncio.create_task(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
        if kind is None:
            await self.ended()
        else:
            self.task.cancel()

    async def _run(self) -> None:
        try:
            await self._app(self._scope, self._receive, self._send)
        finally:
            self._out.put_nowait(None)

    async def _next(self) -> Message | None:
        async with asyncio.timeout(DEADLINE_S):
            message = await self._out.get()
        if message is None:
            self._out.put_nowait(None)
        elif self._taken is not None and not self._taken.done():
            self._taken.set_result(None)
        return message

    async def _receive(self) -> Message:
        if self._in.empty():
            gone = asyncio.ensure_future(self._gone.wait())
            more = asyncio.ensure_future(self._in.get())
            try:
                await asyncio.wait({gone, more}, return_when=asyncio.FIRST_COMPLETED)
                return more.result() if more.done() else {"type": "http.disconnect"}
            finally:
                gone.cancel()
                more.cancel()
        return self._in.get_nowait()

    async def _send(self, message: Message) -> None:
        if self._gone.is_set():
            await asyncio.sleep(0)
            return
        self._taken = asyncio.get_running_loop().create_future()
        self._out.put_nowait(message)
        await self._taken
        self._taken = None


async def soon(condition: Any, what: str = "it") -> None:
    """Let the loop run until a condition comes true; fail when it does not."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - what comes true is no event of ours
            await asyncio.sleep(0.001)


def events_of(text: bytes) -> list[dict[str, str]]:
    """Server-sent events as a client reads them: those that have data, each with its fields."""
    found: list[dict[str, str]] = []
    for block in text.decode().split("\n\n"):
        lines = [line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":")]
        fields = dict(lines)
        if "data" in fields:
            found.append(fields)
    return found
