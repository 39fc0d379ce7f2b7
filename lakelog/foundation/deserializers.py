"""Deserializers of keys and values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

Deserialize = Callable[[bytes], Any]


def to_text(content: bytes) -> str:
    return content.decode()


#: None leaves the bytes as they are.
DESERIALIZERS: Final[Mapping[str, Deserialize | None]] = {
    "bytes": None,
    "string": to_text,
    "json": msgspec.json.decode,
}


def deserializer_of(given: str | Callable[..., Any]) -> Deserialize | None:
    return DESERIALIZERS[given] if isinstance(given, str) else given
