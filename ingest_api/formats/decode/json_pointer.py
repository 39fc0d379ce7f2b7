"""A JSON pointer (RFC 6901) into values as sent: the found value is decoded no further than needed. Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import Raw

from ingest_api.formats.decode.record_errors import shown
from ingest_api.web.errors import Refusal

#: A value with more commas is not searched: it would take many times its size in memory.
_MOST_COMMAS: Final = 1_000_000
_STRAY: Final = re.compile("~(?![01])")
_INDEX: Final = re.compile("0|[1-9][0-9]{0,17}")
_OBJECT: Final = msgspec.json.Decoder(dict[str, Raw])
_ARRAY: Final = msgspec.json.Decoder(list[Raw])
_TEXT: Final = msgspec.json.Decoder(str)


def parse_pointer(pointer: str) -> tuple[str, ...]:
    """Parse a pointer into its steps; the empty one has none and means the whole value."""
    if (pointer and not pointer.startswith("/")) or _STRAY.search(pointer):
        raise Refusal(422, f"key={shown(pointer)} is no JSON pointer, like /user/id")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])


def find_key(value: bytes, steps: tuple[str, ...]) -> bytes | None:
    """Find the key in a JSON value: the text of a string, else the JSON as sent; None if it is null or absent."""
    at: bytes | Raw | None = value
    for step in steps:
        at = _step(bytes(at), step)
        if at is None:
            return None
    found = bytes(at)
    if found.startswith(b'"'):
        return _TEXT.decode(found).encode()
    return None if found == b"null" else found


def _step(value: bytes, step: str) -> Raw | None:
    if len(value) > _MOST_COMMAS and value.count(b",") > _MOST_COMMAS:
        raise Refusal(422, f"a value with more than {_MOST_COMMAS} parts is too large to find its key in it")
    if value.startswith(b"{"):
        return _OBJECT.decode(value).get(step)
    if value.startswith(b"[") and _INDEX.fullmatch(step):
        elements = _ARRAY.decode(value)
        return elements[int(step)] if int(step) < len(elements) else None
    return None
