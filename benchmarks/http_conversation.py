"""One connection for asynchronous requests, whose answers are looked at no more than a benchmark has to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from benchmarks.http_reader import field_of

_OK: Final = b"2"
_NO_CONTENT: Final = b"204"
_ROOM: Final = 1 << 24


class Conversation:
    """Used by one task at a time."""

    def __init__(self, url: str) -> None:
        self._at = urlsplit(url)

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(self._at.hostname, self._at.port, limit=_ROOM)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()

    async def ask(self, request: bytes) -> bytes:
        """The head of the answer."""
        self._writer.write(request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        if head[9:10] != _OK:
            raise RuntimeError(f"the server answered {head!r}")
        return head

    async def answer(self, request: bytes) -> tuple[bytes, bytes]:
        head = await self.ask(request)
        if head[9:12] == _NO_CONTENT:
            return head, b""
        length = field_of(head, b"content-length")
        if length:
            return head, await self._reader.readexactly(int(length))
        return head, b"".join([chunk async for chunk in self.chunks()])

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self._reader.readline(), 16):
            yield (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
