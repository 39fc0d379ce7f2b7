"""Renders the bytes of an answer: its head, its chunks, refusals without an app. Values in, values out."""

from __future__ import annotations

import http
import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from ingest_api.http1.asgi import Headers
from ingest_api.http1.rejections import Fault

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
_FAILED: Final = b'{"error_code":50000,"message":"internal error","outcome":"unknown"}\n'


_PHRASES: Final = {status.value: status.phrase for status in http.HTTPStatus}
_STATUS_LINES: Final = {n: f"HTTP/1.1 {n} {_PHRASES.get(n, '')}\r\n".encode() for n in range(200, 600)}
#: The fields that frame an answer.
_OURS: Final = frozenset((b"content-length", b"connection", b"transfer-encoding"))
_BODILESS: Final = frozenset((204, 304))
_CONNECTION: Final = (b"connection: close\r\n", b"connection: keep-alive\r\n")


class AnswerHead(NamedTuple):
    """The first bytes of an answer, and the framing of its body. `left` is None if it has no content-length."""

    data: bytes
    bodiless: bool
    chunked: bool
    left: int | None
    keep_alive: bool


def plan_answer(
    status: int,
    headers: Iterable[tuple[bytes, bytes]],
    more: bytes,
    whole: int | None,
    *,
    is_head: bool,
    is_old: bool,
    keep_alive: bool,
) -> AnswerHead:
    """Render the head of an answer. `whole` is the length of its body if the body is complete.

    `more` are valid header lines. `is_old`: the request is HTTP/1.0, which has no chunks. Raises ValueError for an
    answer that a client would misread.
    """
    length: int | None = None
    parts: list[bytes] = []
    for name, value in headers:
        known = name.lower()
        if known not in _OURS:
            parts += (name, b": ", value, b"\r\n")
        elif known == b"content-length":
            length = _promise(length, value)
        elif known == b"connection":
            keep_alive = keep_alive and value.lower() != b"close"
        else:
            raise ValueError("how an answer is framed is decided here")
    bodiless = is_head or status in _BODILESS
    if length is None and (whole or not bodiless):
        length = whole
    chunked = length is None and not bodiless and not is_old
    keep_alive = keep_alive and (length is not None or chunked or bodiless)
    framing = b""
    if length is not None and status not in _BODILESS:
        framing = b"content-length: %d\r\n" % length
    elif chunked:
        framing = b"transfer-encoding: chunked\r\n"
    if is_old or not keep_alive:
        framing += _CONNECTION[keep_alive]
    data = _STATUS_LINES[status] + more + (_join(parts) if parts else b"") + framing + b"\r\n"
    return AnswerHead(data, bodiless, chunked, length, keep_alive)


def head_of_whole(status: int, fields: bytes, more: bytes, size: int, *, is_old: bool, keep_alive: bool) -> bytes:
    """Fast path of `plan_answer` for a whole answer with a body: `fields` and `more` are valid header lines."""
    connection = b"" if keep_alive and not is_old else _CONNECTION[keep_alive]
    return b"%b%b%bcontent-length: %d\r\n%b\r\n" % (_STATUS_LINES[status], more, fields, size, connection)


def _promise(before: int | None, value: bytes) -> int:
    if before is not None or not value.isdigit():
        raise ValueError("the length of an answer is not one plain number")
    return int(value)


def _join(parts: list[bytes]) -> bytes:
    """Join fields of four parts each, the last CRLF. Refuses line breaks in values: a client could inject a field."""
    data = b"".join(parts)
    if len(data) - len(data.translate(None, b"\r\n\0")) != len(parts) // 2:
        raise ValueError("a field of an answer has a line break or a NUL")
    return data


def frame_chunk(size: int, *, last: bool) -> tuple[bytes, bytes]:
    """Framing before and behind one piece of a chunked body; an empty piece has none unless it is the last."""
    if not size:
        return b"", LAST_CHUNK if last else b""
    return b"%x\r\n" % size, b"\r\n" + LAST_CHUNK if last else b"\r\n"


def refuse(fault: Fault, more: bytes, *, is_head: bool = False) -> bytes:
    """Render the whole answer to a request that is not executed. Its connection ends with it."""
    content: dict[str, object] = {"error_code": fault.status, "message": fault.message}
    headers: Headers = [(b"content-type", b"application/json")]
    if fault.not_attempted:
        content |= {"retriable": True, "outcome": "not_attempted"}
        headers.append((b"retry-after", b"1"))
    body = json.dumps(content, separators=(",", ":")).encode() + b"\n"
    return _answer_whole(fault.status, headers, body, more, is_head=is_head)


def answer_failure(more: bytes, *, is_head: bool = False) -> bytes:
    """Render the whole answer to a request whose app failed before it answered."""
    return _answer_whole(500, [(b"content-type", b"application/json")], _FAILED, more, is_head=is_head)


def _answer_whole(status: int, headers: Headers, body: bytes, more: bytes, *, is_head: bool) -> bytes:
    head = plan_answer(status, headers, more, len(body), is_head=is_head, is_old=False, keep_alive=False)
    return head.data + (b"" if is_head else body)
