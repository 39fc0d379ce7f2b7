"""Sound Arrow streams with something wrong in them, the same for the same number."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from tests.support.arrow_messages import SCHEMA, Message, messages_of

_NUMBERS = (
    *(0, 1, -1, 2, 7, 8, 64, 127, 128, 255, 256, 65_535, 65_536, 2**20, 2**24, 2**31 - 1, 2**31, 2**31 - 8, -(2**31)),
    *(2**32 - 1, 2**32, 2**40, 2**60, 2**61, 2**62, 2**63 - 1, 2**63 - 8, -(2**63), -(2**40), -8, -16),
)
_BELOW = (-1, -16, -(2**31), 2**31 - 1, 2**27, 1)
_TYPES = 32


class Mutants:
    """Mutants of these streams. A stream is looked up by its number, so that each can be made again by itself."""

    def __init__(self, streams: Sequence[bytes], seed: int) -> None:
        self._streams = streams
        self._messages = [_messages_or_none(stream) for stream in streams]
        self._seed = seed

    def make(self, number: int) -> bytes:
        chance = random.Random(self._seed << 40 | number)
        at = chance.randrange(len(self._streams))
        stream, messages = bytearray(self._streams[at]), self._messages[at]
        for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5))):
            chance.choice(_BLIND if messages is None else _CHANGES)(stream, messages or (), chance)
        if chance.random() < 0.15:
            self._reorder(stream, at, chance)
        return bytes(stream)

    def _reorder(self, stream: bytearray, at: int, chance: random.Random) -> None:
        """Cut, double, swap, or take a message from another stream."""
        messages = self._messages[at]
        if messages is None or not stream:
            return
        one = chance.choice(messages)
        match chance.randrange(5):
            case 0:
                del stream[chance.randrange(len(stream)) :]
            case 1:
                del stream[one.start : one.end]
            case 2:
                stream[one.end : one.end] = stream[one.start : one.end]
            case 3:
                stream[-8:] = b""
            case _:
                other = chance.randrange(len(self._streams))
                theirs = chance.choice(self._messages[other] or [one])
                stream[one.start : one.end] = self._streams[other][theirs.start : theirs.end]


def _messages_or_none(stream: bytes) -> list[Message] | None:
    """None of a stream in the old framing."""
    return messages_of(stream) if stream[:4] == b"\xff\xff\xff\xff" else None


Change = Callable[[bytearray, Sequence[Message], random.Random], None]


def _put(stream: bytearray, at: int, code: str, chance: random.Random) -> None:
    """A number that means much, or one that is a little different."""
    size = struct.calcsize(code)
    if not 0 <= at <= len(stream) - size:
        return
    if chance.random() < 0.6:
        number = chance.choice(_NUMBERS)
    else:
        number = int.from_bytes(stream[at : at + size], "little", signed=True) + chance.choice((-8, -1, 1, 2, 8, 64))
    stream[at : at + size] = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _flip(stream: bytearray, _: Sequence[Message], chance: random.Random) -> None:
    for _each in range(chance.choice((1, 1, 2, 4))):
        if stream:
            stream[chance.randrange(len(stream))] ^= 1 << chance.randrange(8)


def _overwrite(stream: bytearray, _: Sequence[Message], chance: random.Random) -> None:
    if len(stream) >= 8:
        _put(stream, chance.randrange(0, len(stream) - 7, 4), chance.choice("bhiq"), chance)


def _schema(stream: bytearray, messages: Sequence[Message], chance: random.Random) -> None:
    first = messages[0]
    at = chance.randrange(first.metadata, first.body)
    if chance.random() < 0.5:
        stream[at] = chance.randrange(_TYPES)
    else:
        _put(stream, at & ~3, chance.choice("hi"), chance)


def _described(stream: bytearray, messages: Sequence[Message], chance: random.Random) -> None:
    """What a batch says of an array or a buffer."""
    message = chance.choice(messages)
    numbers = [*message.nodes, *message.buffers]
    if numbers:
        _put(stream, chance.choice(numbers), "q", chance)
    elif message.kind == SCHEMA:
        _schema(stream, messages, chance)


def _metadata(stream: bytearray, messages: Sequence[Message], chance: random.Random) -> None:
    message = chance.choice(messages)
    _put(stream, chance.randrange(message.start, message.body), chance.choice("bhiq"), chance)


def _contents(stream: bytearray, messages: Sequence[Message], chance: random.Random) -> None:
    """Offsets, views, indexes, lengths of what is compressed: whatever a buffer has at its begin, or in its middle."""
    message = chance.choice(messages)
    if message.body < message.end:
        at = chance.randrange(message.body, message.end, chance.choice((4, 8, 16)))
        _put(stream, at, chance.choice("iiq"), chance)


def _below_a_null(stream: bytearray, messages: Sequence[Message], chance: random.Random) -> None:
    """A row becomes a null, and what lies there something else: of all numbers those that are looked at least."""
    message = chance.choice(messages)
    if len(message.buffers) < 4 or len(stream) < message.end:
        return
    bits = chance.choice((0, chance.randrange(len(message.buffers) // 2 - 1)))
    valid, slots = (_begin(stream, message, each) for each in (bits, bits + 1))
    row = chance.randrange(4)
    if message.body <= valid < message.end:
        stream[valid] &= ~(1 << row)
    for place in message.nodes[1::2]:
        struct.pack_into("<q", stream, place, 1)
    at = slots + row * chance.choice((4, 8, 16))
    if message.body <= at <= message.end - 4:
        struct.pack_into("<i", stream, at, chance.choice(_BELOW))


def _begin(stream: bytearray, message: Message, buffer: int) -> int:
    return message.body + int(struct.unpack_from("<q", stream, message.buffers[2 * buffer])[0])


_BLIND: tuple[Change, ...] = (_flip, _overwrite)
_CHANGES: tuple[Change, ...] = (
    *_BLIND,
    _schema,
    _described,
    _described,
    _metadata,
    _contents,
    _contents,
    _below_a_null,
    _below_a_null,
)
