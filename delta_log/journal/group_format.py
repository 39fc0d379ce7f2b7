"""The journal's bytes: groups of frames.

A group is the content of one synced write: a header, its directory (which frames, of which partitions, at which
offsets), and the frames' payloads. Header, directory and each payload have a checksum of their own, so damage to one
leaves the others readable. The header also records how far the journal was known synced before the group was written,
and the directory repeats the ranges of the previous group: with both, a torn end can be distinguished from a damaged
middle, and the offsets of a damaged group are still known.

Producers' data is never mistaken for a group, although a scan looks for groups at any position: each life of a journal
draws a random number, which is never disclosed, and its headers carry it.
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
    """A dense run of one partition, or a decision (`partition` −1). `length` and `crc` are of the payload."""

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
    """The range of a frame, repeated in the directory of the next group."""

    topic: str
    topic_id: str
    partition: int
    base_offset: int
    count: int


class Directory(msgspec.Struct, array_like=True, gc=False):
    previous: list[RangeNote]
    frames: list[Frame]


class GroupHeader(msgspec.Struct, gc=False, frozen=True):
    """Header of a group. `number` counts groups in a life, `index` in a segment: a gap shows how many are missing."""

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
    """CRC-32C by the CPU instruction: a few microseconds for a large request, with the GIL released.

    Avoid it in a loop: each call has to reacquire the GIL.
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
    """The bytes common to all headers of a segment, and unique to them; they begin MARK_AT bytes into each."""
    return _MARK.pack(life, epoch, segment)


def decode_header(data: memoryview) -> GroupHeader | None:
    """The header at the start of `data`; None if there is none, or it is cut or damaged."""
    if len(data) < HEADER_SIZE or bytes(data[:4]) != MAGIC:
        return None
    head = data[:HEADER_SIZE]
    if checksum(head[8:]) != int.from_bytes(head[4:8], "little"):
        return None
    return GroupHeader(*_HEADER.unpack(head)[2:])


def decode_directory(header: GroupHeader, data: memoryview) -> Directory | None:
    """The directory of the group at the start of `data`; None if it is cut or damaged."""
    raw = data[HEADER_SIZE : HEADER_SIZE + header.directory_length]
    if len(raw) < header.directory_length or checksum(raw) != header.directory_crc:
        return None
    try:
        return _decoder.decode(raw)
    except msgspec.DecodeError:
        return None


class Place(msgspec.Struct, frozen=True, gc=False):
    """Position of a frame's payload in the journal."""

    epoch: int
    segment: int
    position: int
    length: int
