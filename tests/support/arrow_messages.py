"""Where the messages of a sound Arrow stream lie, and the numbers in them that say how the rest is to be read."""

from __future__ import annotations

import struct
from typing import NamedTuple

from lakelog.foundation.flatbuffer import Table

SCHEMA, DICTIONARY, BATCH = 1, 2, 3


class Message(NamedTuple):
    """Places in the stream. `nodes` and `buffers` are those of their 64-bit numbers, two of each array and buffer."""

    kind: int
    start: int
    metadata: int
    body: int
    end: int
    nodes: range
    buffers: range


def messages_of(stream: bytes) -> list[Message]:
    found: list[Message] = []
    at = 0
    while True:
        (size,) = struct.unpack_from("<i", stream, at + 4)
        if not size:
            return found
        metadata, body = at + 8, at + 8 + size
        message = Table.root(stream[metadata:body])
        kind, header = message.number(1, "B"), message.table(2)
        batch = header.table(1) if kind == DICTIONARY else header
        spots = [range(0), range(0)]
        if kind != SCHEMA:
            spots = [_numbers(metadata, *batch._vector(field, 16)) for field in (1, 2)]
        end = body + message.number(3, "q")
        found.append(Message(kind, at, metadata, body, end, *spots))
        at = end


def _numbers(metadata: int, start: int, count: int) -> range:
    return range(metadata + start, metadata + start + 16 * count, 8)


def patched(stream: bytes, at: int, number: int, code: str = "q") -> bytes:
    changed = bytearray(stream)
    struct.pack_into(f"<{code}", changed, at, number)
    return bytes(changed)
