"""Parses and validates a request head. Values in, values out.

httptools parses the fields; it refuses bare line ends, folded fields, control characters, spaces before colons and
unknown methods. Faults that it accepts, and every field that frames a body, are checked here.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from ingest_api.http1.asgi import Headers
from ingest_api.http1.limits import WireLimits
from ingest_api.http1.rejections import (
    HEAD_TOO_LARGE,
    NO_TUNNELS,
    TOO_MANY_FIELDS,
    UNKNOWN_EXPECTATION,
    URL_TOO_LONG,
    BadRequest,
    Fault,
    bad_request,
)

HEAD_END: Final = b"\r\n\r\n"
_VERSIONS: Final = {b"HTTP/1.1": "1.1", b"HTTP/1.0": "1.0"}
#: The fields that this package itself acts upon.
_OURS: Final = frozenset((b"host", b"content-length", b"transfer-encoding", b"connection", b"expect"))
_ABSOLUTE: Final = re.compile(rb"https?://([^/?]+)(/[^?]*)?(\?.*)?", re.IGNORECASE)
#: Without the comma of the grammar: two Host fields, gathered, must not look like one.
_HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::[0-9]*)?")
_MISPLACED: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|(?<!\r)\n")
_START: Final = re.compile(rb"[A-Z-]{1,20}(?: |\Z)")
_LONGEST_LENGTH: Final = 18


class Head(msgspec.Struct):
    """A valid request head. `length` is None for a chunked body.

    It may be reused for a repeated head: never change it. An app caches in `notes` what it derives from the head, but
    nothing that depends on the counter field.
    """

    method: str
    version: str
    path: str
    raw_path: bytes
    query: bytes
    headers: Headers
    length: int | None
    keep_alive: bool
    expects_continue: bool
    notes: dict[str, Any] = {}

    def with_value(self, place: int, value: bytes) -> Head:
        """Copy with another value of one field, a field without meaning for this package."""
        headers = self.headers.copy()
        headers[place] = headers[place][0], value
        return Head(
            self.method,
            self.version,
            self.path,
            self.raw_path,
            self.query,
            headers,
            self.length,
            self.keep_alive,
            self.expects_continue,
            self.notes,
        )


class _Fields:
    __slots__ = ("headers",)

    def __init__(self) -> None:
        self.headers: Headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))


def check_beginning(head: bytes, seen: int, limits: WireLimits) -> BadRequest | None:
    """Return the fault of a head that has not ended, or None; its first `seen` bytes were checked before."""
    if len(head) >= limits.head_bytes:
        return BadRequest(decide_oversize(head, limits))
    if _MISPLACED.search(head, seen):
        return bad_request("the request head has a character or a line end that it must not have")
    if not _START.match(head) and head != b"\r":
        return bad_request("the request does not begin with a method")
    return None


def decide_oversize(head: bytes, limits: WireLimits) -> Fault:
    """Return the fault of a head that is too large: its URL, or the whole head."""
    return HEAD_TOO_LARGE if 0 <= head.find(b"\r\n") <= limits.head_bytes else URL_TOO_LONG


def parse_head(head: bytes, limits: WireLimits) -> Head:
    """Parse a whole head, from its request line to the empty line. Raises BadRequest."""
    if len(head) > limits.head_bytes:
        raise BadRequest(decide_oversize(head, limits))
    headers = _read_fields(head)
    if len(headers) > limits.head_fields:
        raise BadRequest(TOO_MANY_FIELDS)
    words = head[: head.find(b"\r\n")].split(b" ")
    version = _VERSIONS.get(words[-1])
    if len(words) != 3 or version is None or not words[0][:1].isupper():
        raise bad_request("the request line is not `method target HTTP/1.1` or `... HTTP/1.0`")
    ours = _gather_ours(headers)
    host = ours.get(b"host")
    if (version == "1.1") if host is None else not _HOST.fullmatch(host):
        raise bad_request("the request must have one Host field, with a host and a port")
    method, target = words[0].decode("ascii"), words[1]
    if not target.startswith(b"/"):
        target = _plain_target(method, target, headers)
    if b"#" in target:
        raise bad_request("the request target has a fragment")
    raw_path, _, query = target.partition(b"?")
    path = raw_path.decode("ascii")
    length, keep_alive = _read_length(ours, version), _read_keep_alive(ours, version)
    expects_continue = version == "1.1" and _read_expectation(ours)
    if "%" in path:
        path = unquote(path)
    return Head(method, version, path, raw_path, query, headers, length, keep_alive, expects_continue)


def _read_fields(head: bytes) -> Headers:
    fields = _Fields()
    try:
        HttpRequestParser(fields).feed_data(head)
    except HttpParserUpgrade:
        pass  # asked for, not done: a plain request
    except HttpParserError as error:
        raise bad_request(f"the request is not sound HTTP/1.1: {error}") from None
    if b" \r\n" in head or b"\t\r\n" in head:
        return [(name, value.rstrip(b" \t")) for name, value in fields.headers]
    return fields.headers


def _plain_target(method: str, target: bytes, headers: Headers) -> bytes:
    """Convert a target of the other three forms to path and query."""
    if method == "CONNECT":
        raise BadRequest(NO_TUNNELS)
    if target == b"*" and method == "OPTIONS":
        return target
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None or not _HOST.fullmatch(absolute[1]):
        raise bad_request("the request target is neither a path nor a URL of http or https")
    # RFC 9112, 3.2.2: the authority of an absolute target overrides the Host field.
    authority: bytes = absolute[1]
    headers[:] = [(b"host", authority), *((name, value) for name, value in headers if name != b"host")]
    return (absolute[2] or b"/") + (absolute[3] or b"")


def _gather_ours(headers: Headers) -> dict[bytes, bytes]:
    """The fields of `_OURS`. A repeated one becomes a list, which only `connection` may be."""
    ours: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _OURS:
            ours[name] = ours[name] + b"," + value if name in ours else value
    return ours


def _read_length(ours: dict[bytes, bytes], version: str) -> int | None:
    length, coding = ours.get(b"content-length"), ours.get(b"transfer-encoding")
    if coding is not None:
        if version == "1.0" or coding.lower() != b"chunked":
            raise bad_request("the only Transfer-Encoding is chunked, once, and of HTTP/1.1")
        if length is not None:
            raise bad_request("Content-Length and Transfer-Encoding do not go together")
        return None
    if length is None:
        return 0
    if not length.isdigit() or len(length) > _LONGEST_LENGTH:
        raise bad_request("the Content-Length is not one plain number")
    return int(length)


def _read_keep_alive(ours: dict[bytes, bytes], version: str) -> bool:
    given = ours.get(b"connection")
    if given is None:
        return version == "1.1"
    options = [option.strip() for option in given.lower().split(b",")]
    return b"close" not in options and (version == "1.1" or b"keep-alive" in options)


def _read_expectation(ours: dict[bytes, bytes]) -> bool:
    expected = ours.get(b"expect")
    if expected is not None and expected.lower() != b"100-continue":
        raise BadRequest(UNKNOWN_EXPECTATION)
    return expected is not None
