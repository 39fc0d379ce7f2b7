"""Reading over HTTP from a raw socket: it counts bytes and line feeds, and looks at nothing else."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

_END: Final = b"\r\n\r\n"
_LINE: Final = b"\r\n"
_BUFFER: Final = 1 << 20
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

    def get(self, path: str, accept: str) -> Answer:
        self._socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {self._host}\r\nAccept: {accept}\r\n\r\n".encode())
        while _END not in self._got:
            self._got += self._receive()
        head, _, self._got = self._got.partition(_END)
        if head.split(b" ", 2)[1] != _OK:
            raise RuntimeError(f"the server answered {head!r} {self._got!r}")
        length = field_of(head, b"content-length")
        size, lines = self._count(int(length)) if length else self._count_chunks()
        return Answer(head, size, lines)

    def _count(self, size: int) -> tuple[int, int]:
        """Take so many bytes."""
        left, lines = size, 0
        while left:
            data = self._got or self._receive()
            self._got = b""
            if len(data) > left:
                data, self._got = data[:left], bytes(data[left:])
            left -= len(data)
            lines += data.count(b"\n")
        return size, lines

    def _count_chunks(self) -> tuple[int, int]:
        size = lines = 0
        while True:
            while _LINE not in self._got:
                self._got += self._receive()
            length, _, self._got = self._got.partition(_LINE)
            found, counted = self._count(int(length, 16))
            size, lines = size + found, lines + counted
            while len(self._got) < len(_LINE):
                self._got += self._receive()
            self._got = self._got[len(_LINE) :]
            if not found:
                return size, lines

    def _receive(self) -> bytes:
        count = self._socket.recv_into(self._buffer)
        if not count:
            raise ConnectionError("the server ended a connection amid an answer")
        return bytes(memoryview(self._buffer)[:count])
