"""Formats values for messages: as JSON or text, not as Python shows them, on one line and bounded. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Final, cast

_MOST: Final = 100
_MOST_MESSAGE: Final = 2_000
#: Python formats no integers of more than 4,300 digits.
_MOST_BITS: Final = 10_000
_IN_JSON: Final = (Mapping, list, tuple, bool, int, float)


def quoted(value: object, most: int = _MOST) -> str:
    """Format a client's value. Text is quoted; bytes are shown as the text that they encode in Latin-1."""
    if isinstance(value, Enum):
        value = cast("object", value.value)
    if isinstance(value, bytes):
        value = value[: most + 1].decode("latin-1")
    if isinstance(value, str):
        return repr(_cut(value, most))
    return _cut(tidy(_as_json(value)), most)


def tell(why: object) -> str:
    """Format a reason: an error's message, or a text unchanged."""
    if isinstance(why, BaseException):
        return str(why) or type(why).__name__
    return why if isinstance(why, str) else quoted(why)


def tidy(message: str, most: int = _MOST_MESSAGE) -> str:
    """Put a message on one line, without control characters, and bound its length."""
    message = _cut(message, most)
    if message.isprintable():
        return message
    return _cut("".join(each if each.isprintable() else repr(each)[1:-1] for each in message), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"


def _as_json(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "a number without end"
    if value is None or isinstance(value, _IN_JSON):
        try:
            return json.dumps(value, ensure_ascii=False, default=_plain)
        except (TypeError, ValueError, RecursionError):
            return _plain(cast("object", value))
    return _plain(value)


def _plain(value: object) -> str:
    """Format a value that JSON cannot represent."""
    if isinstance(value, bytes | Enum):
        return quoted(value)[1:-1]
    return f"of type {type(value).__name__}"
