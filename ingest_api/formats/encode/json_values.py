"""Shows the bytes of a key or value in a JSON document. Knows strict JSON; must not know any format.

A stored byte string is shown as the first of these that fits:

    null                              null
    JSON (see `embed_column`)         itself: its numbers and strings as they are spelled, white space around it removed
    UTF-8                             a string
    anything else                     {"base64": "…"}

So a stored `null` cannot be told from an absent value, nor the stored text `"a"` from the stored text `a`: a client
that must tell them apart asks for base64.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, Literal

import msgspec

Decode = Literal["auto", "json", "string", "base64"]

#: Deeper JSON is shown as text: readers have limits, and one record must not make a whole answer unreadable.
MAX_DEPTH: Final = 100
#: Likewise JSON with a number of more digits in a row.
MAX_DIGITS: Final = 1_000
#: A value of at most this size can break neither bound.
_BOUNDED: Final = 2 * MAX_DEPTH


class Base64(msgspec.Struct, gc=False):
    """Form of bytes that are not text."""

    base64: bytes


Embedded = msgspec.Raw | Base64 | str | bytes | None

#: First bytes of JSON: tells most text apart cheaply, and no plain word costs an exception.
_FIRST_BYTES: Final = frozenset(b' \t\r\n"{[-0123456789tfn')
_LIKE_JSON: Final = re.compile(rb'[ \t\r\n]*(?:["{\[\-0-9]|true|false|null)')
_STRING: Final = re.compile(rb'"[^"]*"')
_LONG_NUMBER: Final = re.compile(rb"[0-9]{%d}" % (MAX_DIGITS + 1))
_STRIDE: Final = MAX_DIGITS // 10
_DIGITS_AS_ZERO: Final = bytes.maketrans(b"123456789", b"0" * 9)
_NESTING: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))

_decode_one: Final = msgspec.json.Decoder(msgspec.Raw).decode
_decode_all: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def embed_columns(
    keys: list[bytes | None], values: list[bytes | None], decode: Decode
) -> tuple[Sequence[Embedded], Sequence[Embedded]]:
    return embed_column(keys, decode), embed_column(values, decode)


def embed_column(column: list[bytes | None], decode: Decode) -> Sequence[Embedded]:
    """Convert a column to objects that msgspec encodes into a document; each entry depends on its own bytes alone.

    `string` ignores JSON, `base64` is a plain base64 string, and `json` falls back like `auto`, so they are the same.

    JSON is RFC 8259 as UTF-8 without a BOM, lone surrogates, NaN or Infinity, within the bounds above. JSON with a raw
    line break, which can only be white space, has all of its white space removed: a record is always one line.
    """
    if decode == "base64" or column.count(None) == len(column):
        return column
    if decode == "string":
        return [None if content is None else _embed_text(content) for content in column]
    return _embed_all(column) or [None if content is None else _embed_one(content) for content in column]


def _embed_all(column: list[bytes | None]) -> list[msgspec.Raw] | None:
    """Convert a column whose values are all JSON without special cases; else None.

    Decodes the column in one pass as an array. Its elements have the lengths of the values only if they are the values:
    without white space between them, the first begins where the first value does, and so on. So no value can deceive
    it, like `1,2` or `[1` before `2]`.
    """
    contents = [b"null" if content is None else content for content in column]
    joined = b"[" + b",".join(contents) + b"]"
    if b"\n" in joined or b"\r" in joined or not _is_utf8(joined):
        return None
    try:
        elements = _decode_all(joined)
    except (msgspec.DecodeError, RecursionError):
        return None
    lengths = list(map(len, contents))
    if list(map(len, elements)) != lengths:
        return None
    if max(lengths) > _BOUNDED and not all(map(_is_bounded, contents)):
        return None
    return elements


def _embed_one(content: bytes) -> Embedded:
    if not content or content[0] not in _FIRST_BYTES or not _LIKE_JSON.match(content):
        return _embed_text(content)
    if not _is_bounded(content) or not _is_utf8(content):
        return _embed_text(content)
    try:
        raw = _decode_one(content)
    except (msgspec.DecodeError, RecursionError):
        return _embed_text(content)
    if b"\n" in content or b"\r" in content:
        return msgspec.Raw(msgspec.json.format(bytes(raw), indent=-1))
    return raw


def _embed_text(content: bytes) -> str | Base64:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return Base64(content)


def _is_utf8(content: bytes) -> bool:
    """Check UTF-8 separately, as skipping JSON does not check the bytes of its strings."""
    if content.isascii():
        return True
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_bounded(content: bytes) -> bool:
    """True if JSON is within the bounds of depth and digits. Exact, but a cheap test suffices for nearly all values."""
    if len(content) <= _BOUNDED:
        return True
    deep = content.count(b"[") + content.count(b"{") > MAX_DEPTH
    # A run of more digits than allowed meets ten samples in a row.
    long = len(content) > MAX_DIGITS and b"0" * 10 in content[::_STRIDE].translate(_DIGITS_AS_ZERO)
    if not deep and not long:
        return True
    rest = _STRING.sub(b"", content.replace(b"\\\\", b"").replace(b'\\"', b""))
    if long and _LONG_NUMBER.search(rest):
        return False
    steps = memoryview(rest.translate(_NESTING, _NO_BRACKETS)).cast("b")
    return max(accumulate(steps), default=0) <= MAX_DEPTH
