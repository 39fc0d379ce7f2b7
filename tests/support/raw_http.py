"""HTTP as bytes: a client that sends exactly what it is told."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Self

DEADLINE_S = 40.0
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
OLD = b"GET / HTTP/1.0\r\n\r\n"


@dataclass
class Answer:
    """One answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes


class Cut(Exception):
    """The connection ended before the answer did."""


class RawClient:
    """One connection. Nothing is added to what is sent, nothing believed of what comes."""

    def __init__(self, port: int, *, receive_buffer: int | None = None, source: str | None = None) -> None:
        """`source` is an address of the loopback to come from, where another one is wanted than usual."""
        self.socket = socket.socket()
        self._data = b""
        try:
            if source is not None:
                self.socket.bind((source, 0))
            if receive_buffer is not None:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            self.socket.settimeout(DEADLINE_S)
            self.socket.connect(("127.0.0.1", port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            self.socket.close()  # nobody else knows of it
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def finish(self) -> None:
        """Send no more, but read on."""
        self.socket.shutdown(socket.SHUT_WR)

    def ask(self, data: bytes, *, to_head: bool = False) -> Answer:
        self.send(data)
        return self.read_answer(to_head=to_head)

    def read_answer(self, *, to_head: bool = False) -> Answer:
        head = self.read_until(b"\r\n\r\n")
        first, *lines = head[:-4].split(b"\r\n")
        version, status, _ = first.decode().split(" ", 2)
        assert version == "HTTP/1.1"
        headers: dict[str, str] = {}
        for line in lines:
            name, value = line.decode("latin-1").split(": ", 1)
            assert name not in headers, f"{name} comes twice"
            headers[name] = value
        code = int(status)
        if to_head or code < 200 or code in (204, 304):
            return Answer(code, headers, b"")
        if "transfer-encoding" in headers:
            assert headers["transfer-encoding"] == "chunked"
            assert "content-length" not in headers
            return Answer(code, headers, self._read_chunks())
        if "content-length" in headers:
            return Answer(code, headers, self.read_exactly(int(headers["content-length"])))
        return Answer(code, headers, self.read_to_end())

    def read_until(self, mark: bytes) -> bytes:
        while mark not in self._data:
            self._more()
        end = self._data.index(mark) + len(mark)
        found, self._data = self._data[:end], self._data[end:]
        return found

    def read_exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._more()
        found, self._data = self._data[:size], self._data[size:]
        return found

    def read_to_end(self) -> bytes:
        """All that still comes, until the server ends it properly."""
        while piece := self.socket.recv(1 << 16):
            self._data += piece
        found, self._data = self._data, b""
        return found

    def is_ended(self) -> bool:
        """Waits for the end, proper or not; False if there is something to read instead."""
        if self._data:
            return False
        try:
            self._data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return True
        return not self._data

    def _read_chunks(self) -> bytes:
        body = b""
        while size := int(self.read_until(b"\r\n"), 16):
            body += self.read_exactly(size)
            assert self.read_exactly(2) == b"\r\n"
        assert self.read_exactly(2) == b"\r\n"
        return body

    def _more(self) -> None:
        try:
            piece = self.socket.recv(1 << 16)
        except ConnectionResetError as error:
            raise Cut(self._data) from error
        if not piece:
            raise Cut(self._data)
        self._data += piece
