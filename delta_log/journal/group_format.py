"""The journal's bytes: groups of frames.

A group is what one synced write holds: a header, its directory (which frames, of which partitions, at which
offsets), and the frames' payloads. Header, directory and each payload have a checksum of their own, so damage to one
leaves the others readable. The header also says how far the journal was known synced before the group was written,
and the directory repeats the ranges of the group before: with both, a torn end and a damaged middle can be told
apart, and the offsets of a damaged group are still known.

What a producer sends is never taken for a group, though a group is looked for in the middle of everything: each life
of a journal draws a random number that nobody outside learns, and its headers carry it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import google_crc32c
import msgspec

Payload = bytes | memoryview

MAGIC: Final = b"LKLG"
_HEADER: Final = struct.Struct("<4sIQQQQQQQIIQ")
HEADER_SIZE: Final = _HEADER.size
_MARK: Final = struct.Struct("<QQQ")
MARK_AT: Final = 8


class Frame(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """One dense run of one partition, or a decision (`partition` −1). `length` and `crc` are of the payload."""

    kind: int
    topic: str
    topic_id: str
    partition: int
    base_offset: int
    count: int
    epoch: int
    length: int
    crc: int
    timestamp_ms: int
    #: producer id and epoch, for the columns of the table
    stamp: tuple[str, int] | None = None

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.count


class RangeNote(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """What a directory repeats of each frame of the group before it."""

    topic: str
    topic_id: str
    partition: int
    base_offset: int
    count: int


class Directory(msgspec.Struct, array_like=True, gc=False):
    previous: list[RangeNote]
    frames: list[Frame]


class GroupHeader(msgspec.Struct, gc=False, frozen=True):
    """`number` counts the groups of a life, `index` those of its segment: what is missing can be counted."""

    life: int
    epoch: int
    segment: int
    number: int
    index: int
    synced_segment: int
    synced_length: int
    directory_length: int
    directory_crc: int
    payload_length: int

    @property
    def size(self) -> int:
        return HEADER_SIZE + self.directory_length + self.payload_length


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Directory)


def checksum(data: bytes | memoryview) -> int:
    """CRC-32C, by the processor's own instruction: a few microseconds for a large request, without the interpreter.

    So it is not for a loop: whoever lets go of the interpreter waits for it again.
    """
    return google_crc32c.value(bytes(data))


def notes_of(frames: Sequence[Frame]) -> list[RangeNote]:
    return [
        RangeNote(frame.topic, frame.topic_id, frame.partition, frame.base_offset, frame.count)
        for frame in frames
        if frame.count
    ]


def encode_directory(previous: list[RangeNote], frames: list[Frame]) -> bytes:
    return _encoder.encode(Directory(previous, frames))


def encode_header(header: GroupHeader) -> bytes:
    fields = (
        header.life,
        header.epoch,
        header.segment,
        header.number,
        header.index,
        header.synced_segment,
        header.synced_length,
        header.directory_length,
        header.directory_crc,
        header.payload_length,
    )
    body = _HEADER.pack(MAGIC, 0, *fields)
    return MAGIC + checksum(body[8:]).to_bytes(4, "little") + body[8:]


def header_mark(life: int, epoch: int, segment: int) -> bytes:
    """What the headers of a segment have in common, and nothing else has: it begins MARK_AT bytes into each."""
    return _MARK.pack(life, epoch, segment)


def decode_header(data: memoryview) -> GroupHeader | None:
    """The header at the start of `data`; None when there is no whole and true one."""
    if len(data) < HEADER_SIZE or bytes(data[:4]) != MAGIC:
        return None
    head = data[:HEADER_SIZE]
    if checksum(head[8:]) != int.from_bytes(head[4:8], "little"):
        return None
    return GroupHeader(*_HEADER.unpack(head)[2:])


def decode_directory(header: GroupHeader, data: memoryview) -> Directory | None:
    """The directory of the group that starts `data`; None when it is cut or damaged."""
    raw = data[HEADER_SIZE : HEADER_SIZE + header.directory_length]
    if len(raw) < header.directory_length or checksum(raw) != header.directory_crc:
        return None
    try:
        return _decoder.decode(raw)
    except msgspec.DecodeError:
        return None


class Place(msgspec.Struct, frozen=True, gc=False):
    """Where a frame's payload lies in the journal."""

    epoch: int
    segment: int
    position: int
    length: int
