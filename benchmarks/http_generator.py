"""A load generator in Python: raw sockets and little parsing, for where wrk is not, and beside it where it is.

Unlike wrk it waits for the answer to everything it sent: what is stored must be what was acknowledged, exactly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

from benchmarks.driving import run_loop
from benchmarks.http_load import HttpLoad, Requests, load_of

#: Connections begin at different requests.
_STRIDE: Final = 7
_OK: Final = b"2"
_NO_CONTENT: Final = b"204"
_LENGTH: Final = b"content-length:"
_END: Final = b"\r\n\r\n"


def wrap_requests(url: str, requests: Requests) -> list[bytes]:
    """Each with its head, ready to be sent."""
    at = urlsplit(url)
    fields = "".join(f"{name}: {value}\r\n" for name, value in requests.headers.items())
    paths = requests.paths or [at.path + requests.query] * len(requests.bodies)
    return [
        f"POST {path} HTTP/1.1\r\nHost: {at.netloc}\r\n{fields}Content-Length: {len(body)}\r\n\r\n".encode() + body
        for path, body in zip(paths, requests.bodies, strict=True)
    ]


def drive_python(url: str, requests: Requests, *, connections: int, seconds: float) -> HttpLoad:
    """The same as `drive_wrk`."""
    wrapped = wrap_requests(url, requests)
    return drive_callers(url, lambda place: Caller(wrapped, place), connections=connections, seconds=seconds)


def drive_callers(url: str, make: Callable[[int], Caller], *, connections: int, seconds: float) -> HttpLoad:
    """So many callers, each over a connection of its own."""
    at = urlsplit(url)

    async def run() -> HttpLoad:
        loop = asyncio.get_running_loop()
        callers = [
            (await loop.create_connection(lambda place=place: make(place), at.hostname, at.port))[1]
            for place in range(connections)
        ]
        began = perf_counter()
        for caller in callers:
            caller.begin(began + seconds)
        await asyncio.gather(*(caller.ended for caller in callers))
        passed = perf_counter() - began
        return load_of([one for each in callers for one in each.taken], sum(each.refused for each in callers), passed)

    return run_loop(run)


class Caller(asyncio.Protocol):
    """One connection, which sends its next request when the one before is answered; at least one."""

    def __init__(self, requests: Sequence[bytes], place: int) -> None:
        self._requests = requests
        self._place = place * _STRIDE
        self._got = b""
        self._needed = 0
        self._sent = self._until = 0.0
        self.taken: list[float] = []
        self.refused = 0
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def begin(self, until: float) -> None:
        self._until = until
        self._send()

    def data_received(self, data: bytes) -> None:
        self._got = self._got + data if self._got else data
        if not self._needed:
            head = self._got.find(_END)
            if head < 0:
                return
            self._needed = head + len(_END) + _content_length(self._got[:head])
        if len(self._got) < self._needed:
            return
        self.taken.append(perf_counter() - self._sent)
        self.refused += self._got[9:10] != _OK
        self._got, self._needed = b"", 0
        if perf_counter() < self._until:
            self._send()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self._needed or self._got or not self.taken or perf_counter() < self._until:
            self.ended.set_exception(error or ConnectionError("the server ended a connection amid a request"))
        else:
            self.ended.set_result(None)

    def _send(self) -> None:
        self._place += 1
        self._sent = perf_counter()
        self._transport.write(self.take(self._place))

    def take(self, place: int) -> bytes:
        """The request with this number."""
        return self._requests[place % len(self._requests)]


def _content_length(head: bytes) -> int:
    if head[9:12] == _NO_CONTENT:
        return 0
    lowered = head.lower()
    start = lowered.index(_LENGTH) + len(_LENGTH)
    end = lowered.find(b"\r", start)
    return int(lowered[start : end if end > 0 else None])
