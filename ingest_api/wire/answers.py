"""Decides the bytes of an answer: its head, its chunks, the answers of the wire itself. Values in, values out."""

from __future__ import annotations

import http
import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from ingest_api.wire.asgi import Headers
from ingest_api.wire.faults import Fault

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
_FAILED: Final = b'{"error_code":50000,"message":"internal error","outcome":"unknown"}'


_PHRASES: Final = {status.value: status.phrase for status in http.HTTPStatus}
_STATUS_LINES: Final = {n: f"HTTP/1.1 {n} {_PHRASES.get(n, '')}\r\n".encode() for n in range(200, 600)}
_BODILESS: Final = frozenset((204, 304))


class Asked(NamedTuple):
    """What an answer depends on of its request."""

    is_head: bool
    is_old: bool
    """HTTP/1.0: no chunks, and a connection is kept only when both say so."""
    keep_alive: bool


class AnswerHead(NamedTuple):
    """The first bytes of an answer, and how its body goes on. `left` is None where no length was promised."""

    data: bytes
    bodiless: bool
    chunked: bool
    left: int | None
    keep_alive: bool


def plan_answer(
    asked: Asked, status: int, headers: Iterable[tuple[bytes, bytes]], more: bytes, whole: int | None
) -> AnswerHead:
    """The head of an answer. `whole` is the length of its body where all of it is there.

    `more` are fields that are sound already. Raises ValueError for an answer that would be misread on the wire.
    """
    parts = [_STATUS_LINES[status], more]
    lines = 2 + more.count(b"\n")
    length, keep_alive = None, asked.keep_alive
    for name, value in headers:
        known = name.lower()
        if known == b"content-length":
            if length is not None:
                raise ValueError("an answer has two lengths")
            length = int(value)
            if status == 204:
                continue
        elif known == b"transfer-encoding":
            raise ValueError("how an answer is framed is decided here")
        elif known == b"connection":
            keep_alive = keep_alive and value.lower() != b"close"
            continue
        parts += (name, b": ", value, b"\r\n")
        lines += 1
    bodiless = asked.is_head or status in _BODILESS
    chunked = False
    if length is None and whole is not None and (whole or not bodiless) and status not in _BODILESS:
        length = whole
        parts.append(b"content-length: %d\r\n" % whole)
        lines += 1
    elif length is None and not bodiless:
        chunked = not asked.is_old
        keep_alive = keep_alive and chunked
        if chunked:
            parts.append(b"transfer-encoding: chunked\r\n")
            lines += 1
    if not keep_alive:
        parts.append(b"connection: close\r\n")
        lines += 1
    elif asked.is_old:
        parts.append(b"connection: keep-alive\r\n")
        lines += 1
    parts.append(b"\r\n")
    data = b"".join(parts)
    if data.count(b"\n") != lines or data.count(b"\r") != lines or b"\0" in data:
        raise ValueError("a field of an answer has a line break or a NUL")
    return AnswerHead(data, bodiless, chunked, length, keep_alive)


def frame_chunk(body: bytes, *, last: bool) -> tuple[bytes, ...]:
    """One piece of a chunked body; an empty one says nothing unless it is the last."""
    if not body:
        return (LAST_CHUNK,) if last else ()
    return (b"%x\r\n" % len(body), body, b"\r\n" + LAST_CHUNK if last else b"\r\n")


def refuse(fault: Fault, more: bytes, *, is_head: bool = False) -> bytes:
    """The whole answer to a request that is not executed. Its connection ends with it."""
    content: dict[str, object] = {"error_code": fault.status, "message": fault.message}
    headers: Headers = [(b"content-type", b"application/json")]
    if fault.not_attempted:
        content |= {"retriable": True, "outcome": "not_attempted"}
        headers.append((b"retry-after", b"1"))
    body = json.dumps(content, separators=(",", ":")).encode()
    return _answer_whole(fault.status, headers, body, more, is_head=is_head)


def answer_failure(more: bytes, *, is_head: bool = False) -> bytes:
    """The whole answer to a request whose app failed before it answered."""
    return _answer_whole(500, [(b"content-type", b"application/json")], _FAILED, more, is_head=is_head)


def _answer_whole(status: int, headers: Headers, body: bytes, more: bytes, *, is_head: bool) -> bytes:
    asked = Asked(is_head=is_head, is_old=False, keep_alive=False)
    return plan_answer(asked, status, headers, more, len(body)).data + (b"" if is_head else body)
