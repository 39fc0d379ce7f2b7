"""Decodes a chunked body. Values in, values out: bytes as they arrive, the body in pieces.

Strict: only hexadecimal digits in sizes, only CRLF, extensions and trailers checked, bounded and dropped. Bytes behind
the end of the body are not read, so that the next request is never parsed as part of this one.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from ingest_api.http1.rejections import bad_request

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(;[\t -~\x80-\xff]*)?\r\n")
_TRAILER: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n")


class _Stage(Enum):
    SIZE = auto()
    DATA = auto()
    END_OF_DATA = auto()
    TRAILERS = auto()
    DONE = auto()


#: Valid beginnings of a line that has not ended yet.
_BEGUN: Final = {
    _Stage.SIZE: re.compile(rb"[0-9A-Fa-f]{1,15}(?:;[\t -~\x80-\xff]*)?\r?"),
    _Stage.END_OF_DATA: re.compile(rb"\r"),
    _Stage.TRAILERS: re.compile(rb"[\t -~\x80-\xff]*\r?"),
}


class ChunkedBody:
    """Decoder of a single body. Feed it blocks until it is done; `feed` raises BadRequest."""

    __slots__ = ("_extra", "_left", "_line", "_most_extra", "_stage")

    def __init__(self, most_extra: int) -> None:
        self._stage = _Stage.SIZE
        self._left = 0
        self._line = b""
        self._extra = 0
        self._most_extra = most_extra

    @property
    def done(self) -> bool:
        return self._stage is _Stage.DONE

    def feed(self, data: bytes, at: int) -> tuple[bytes, int]:
        """Return the part of the body in `data` from `at` on, and the position behind the bytes read."""
        pieces: list[bytes] = []
        size = len(data)
        while at < size and self._stage is not _Stage.DONE:
            if self._stage is _Stage.DATA:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._stage = _Stage.END_OF_DATA
                    if data.startswith(b"\r\n", at):
                        at += 2
                        self._stage = _Stage.SIZE
            elif self._stage is _Stage.SIZE and not self._line and (found := _SIZE.match(data, at)):
                at = found.end()
                self._begin_chunk(found)
            else:
                at = self._take_line(data, at)
        return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), at

    def _take_line(self, data: bytes, at: int) -> int:
        """Read the next line, or as much of it as has arrived; returns the position behind it."""
        end = data.find(b"\n", at) + 1
        self._line += data[at : end or len(data)]
        if self._extra + len(self._line) > self._most_extra:
            raise bad_request("the extensions and trailers of the chunked body are too large")
        if end:
            line, self._line = self._line, b""
            self._end_line(line)
        elif not _BEGUN[self._stage].fullmatch(self._line):
            raise bad_request("the chunked body is not sound")
        return end or len(data)

    def _end_line(self, line: bytes) -> None:
        if self._stage is _Stage.SIZE:
            if not (found := _SIZE.fullmatch(line)):
                raise bad_request("the size of a chunk is not sound")
            self._begin_chunk(found)
        elif self._stage is _Stage.END_OF_DATA:
            if line != b"\r\n":
                raise bad_request("a chunk is longer than its size says")
            self._stage = _Stage.SIZE
        elif line == b"\r\n":
            self._stage = _Stage.DONE
        else:
            if not _TRAILER.fullmatch(line):
                raise bad_request("a trailer of the chunked body is not sound")
            self._extra += len(line)

    def _begin_chunk(self, found: re.Match[bytes]) -> None:
        self._left = int(found[1], 16)
        self._stage = _Stage.DATA if self._left else _Stage.TRAILERS
        if found[2]:
            self._extra += len(found[2])
            if self._extra > self._most_extra:
                raise bad_request("the extensions and trailers of the chunked body are too large")
