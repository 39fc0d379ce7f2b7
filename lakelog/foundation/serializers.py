"""Serializers of keys and values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

Serialize = Callable[[Any], bytes]


def to_bytes(content: Any) -> bytes:
    """Pass bytes through; text is refused, as only the caller knows its encoding."""
    if isinstance(content, bytes):
        return content
    if isinstance(content, bytearray | memoryview):
        return bytes(cast("bytearray", content))
    raise TypeError(f"bytes are wanted, not {type(content).__name__}: choose a serializer")


def to_text(content: Any) -> bytes:
    if not isinstance(content, str):
        raise TypeError(f"text is wanted, not {type(content).__name__}")
    return content.encode()


SERIALIZERS: Final[Mapping[str, Serialize]] = {"bytes": to_bytes, "string": to_text, "json": msgspec.json.encode}


def serializer_of(given: str | Callable[..., Any]) -> Serialize:
    return SERIALIZERS[given] if isinstance(given, str) else given
