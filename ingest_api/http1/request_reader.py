"""Splits a stream of bytes into heads and bodies, and finds where the next request begins. Values in, values out.

The same requests result however the stream is cut. The caller decides when the next head is parsed, so that nothing
behind a request in progress, or behind an error, is ever parsed.
"""

from __future__ import annotations

from typing import Final

from ingest_api.http1.chunked import ChunkedBody
from ingest_api.http1.head_cache import KnownHead
from ingest_api.http1.limits import WireLimits
from ingest_api.http1.request_head import HEAD_END, Head, check_beginning, parse_head

#: Largest head that a connection remembers, in bytes.
_LONGEST_KEPT: Final = 4096


class RequestReader:
    """The requests of one connection. Its reading methods raise BadRequest; after that it must not be used."""

    __slots__ = (
        "_at",
        "_buffer",
        "_chunked",
        "_last",
        "_left",
        "_limits",
        "_searched",
        "body_bytes",
    )

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        # Bytes given and not read yet: the buffer from `at` on. No head ends before `searched`.
        self._buffer = b""
        self._at = 0
        self._searched = 0
        self._left = 0
        self._chunked: ChunkedBody | None = None
        self._last: KnownHead | None = None
        #: Bytes read of all bodies, with their framing.
        self.body_bytes = 0

    @property
    def ahead(self) -> int:
        """Number of bytes that wait to be read."""
        return len(self._buffer) - self._at

    @property
    def in_head(self) -> bool:
        """A head has begun. A lone CR, half an empty line before a request, does not begin one."""
        return self.ahead > 1 or (self.ahead == 1 and not self._buffer.endswith(b"\r"))

    @property
    def in_body(self) -> bool:
        """A body has not ended."""
        return self._left > 0 or self._chunked is not None

    def give(self, data: bytes) -> None:
        if self._at == len(self._buffer):
            self._buffer = data
            self._searched = 0
        else:
            self._buffer = self._buffer[self._at :] + data
            self._searched = max(0, self._searched - self._at)
        self._at = 0

    def drop(self) -> None:
        """Discard the waiting bytes."""
        self._buffer = b""
        self._at = self._searched = 0

    def read_head(self) -> Head | None:
        """Read the next head; None if it has not all arrived."""
        buffer, at = self._buffer, self._at
        while buffer.startswith(b"\r\n", at):
            at += 2  # empty lines before a request line mean nothing
        self._at = at
        if at == len(buffer):
            return None
        end = buffer.find(HEAD_END, max(at, self._searched - len(HEAD_END) + 1))
        if end < 0:
            fault = check_beginning(buffer[at:], max(0, self._searched - at), self._limits)
            if fault is not None:
                raise fault
            self._searched = len(buffer)
            return None
        self._at = end + len(HEAD_END)
        head = self._repeat(buffer[at : self._at])
        if head.length is None:
            self._chunked = ChunkedBody(self._limits.chunk_extra_bytes)
        else:
            self._left = head.length
        return head

    def _repeat(self, data: bytes) -> Head:
        head = None if self._last is None else self._last.repeat(data)
        if head is None:
            head = parse_head(data, self._limits)
            if len(data) <= _LONGEST_KEPT:
                self._last = KnownHead(data, head, self._limits)
        return head

    def read_repeated(self, data: bytes) -> tuple[Head, bytes] | None:
        """Fast path: head and body if `data` is exactly one request with the head of the last one, else None."""
        if self._last is None or self._at != len(self._buffer):
            return None
        return self._last.repeat_whole(data)

    def read_body(self) -> bytes:
        """Read the bytes that have arrived of the body of the last head."""
        begin = self._at
        if self._chunked is not None:
            piece, self._at = self._chunked.feed(self._buffer, begin)
            if self._chunked.done:
                self._chunked = None
        else:
            self._at = min(len(self._buffer), begin + self._left)
            piece = self._buffer[begin : self._at]
            self._left -= len(piece)
        self.body_bytes += self._at - begin
        if self._at == len(self._buffer):
            self.drop()  # bytes already read must not stay in memory
        return piece
