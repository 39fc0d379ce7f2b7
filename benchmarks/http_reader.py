"""Reading over HTTP from a raw socket: it counts bytes and line feeds, and looks at nothing else."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

_END: Final = b"\r\n\r\n"
_LINE: Final = b"\r\n"
_FEED: Final = b"\n"
_BUFFER: Final = 1 << 20
_STEP: Final = 4096
_TIMEOUT_S: Final = 60
_OK: Final = b"200"


@dataclass(frozen=True, slots=True)
class Answer:
    head: bytes
    size: int
    lines: int

    def field(self, name: str) -> bytes:
        return field_of(self.head, name.encode())


def field_of(head: bytes, name: bytes) -> bytes:
    """The value of a field of a head; empty where there is none. Names are lower case."""
    for line in head.split(_LINE)[1:]:
        given, _, value = line.partition(b":")
        if given.lower() == name:
            return value.strip()
    return b""


class Reader:
    """One connection, one request after the other."""

    def __init__(self, url: str) -> None:
        at = urlsplit(url)
        self._host = at.netloc
        self._socket = socket.create_connection((at.hostname or "", at.port or 80), _TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(_BUFFER)
        self._got = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def get(self, path: str, accept: str, *, lines: bool = True) -> Answer:
        """The answer; its line feeds are counted where that is asked for."""
        self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\nAccept: {accept}\r\n\r\n".encode())
        head = self._until(_END)
        if head.split(b" ", 2)[1] != _OK:
            raise RuntimeError(f"the server answered {head!r} {self._got!r}")
        length = field_of(head, b"content-length")
        size, counted = self._count(int(length), lines=lines) if length else self._count_chunks(lines=lines)
        return Answer(head, size, counted)

    def _until(self, mark: bytes) -> bytes:
        """What comes before the mark, by small steps: what follows is best taken where it lies."""
        while mark not in self._got:
            piece = self._socket.recv(_STEP)
            if not piece:
                raise ConnectionError("the server ended a connection amid an answer")
            self._got += piece
        found, _, self._got = self._got.partition(mark)
        return found

    def _count(self, size: int, *, lines: bool) -> tuple[int, int]:
        """Take so many bytes."""
        taken, self._got = self._got[:size], self._got[size:]
        left, counted = size - len(taken), taken.count(_FEED) if lines else 0
        room = memoryview(self._buffer)
        while left:
            count = self._socket.recv_into(room[: min(left, _BUFFER)])
            if not count:
                raise ConnectionError("the server ended a connection amid an answer")
            left -= count
            counted += self._buffer.count(_FEED, 0, count) if lines else 0
        return size, counted

    def _count_chunks(self, *, lines: bool) -> tuple[int, int]:
        size = counted = 0
        while True:
            found, fed = self._count(int(self._until(_LINE), 16), lines=lines)
            size, counted = size + found, counted + fed
            self._until(_LINE)
            if not found:
                return size, counted
