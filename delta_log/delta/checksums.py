"""Checksums of all bytes of a parquet file, in the file itself. Knows where a footer is, not its content.

    PAR1  pages …  [lkl2  CRC-32C of all before  CRC-32 of all behind]  footer  its length  PAR1

The checksum of the footer is verified whenever a file is opened, as a damaged footer can mislead or crash a process;
that of the bytes before, when all of the file is read. Older files have no checksum of the bytes before: `lkl1` and
the CRC-32 of all behind.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import google_crc32c
import pyarrow as pa

_WHOLE: Final = b"lkl2"
_OLDER: Final = b"lkl1"
_SIZE: Final = 12
#: The footer's length and the magic behind it.
_END_SIZE: Final = 8
#: Bytes read from a file's end at once; most footers fit.
_END_GUESS: Final = 32 * 1024
_BLOCK: Final = 1024 * 1024
_WRONG: Final = "it is not what was written: its checksum is wrong"


def seal(data: pa.Buffer, before: int = 0) -> pa.Buffer:
    """Add the checksums to a file, or to its last part; `before`: the checksum of the earlier parts."""
    whole = memoryview(data)
    at = len(whole) - _END_SIZE - int.from_bytes(whole[-8:-4], "little")
    footer = whole[at:]
    before = google_crc32c.extend(before, data.slice(0, at))
    marks = (_WHOLE, before.to_bytes(4, "little"), zlib.crc32(footer).to_bytes(4, "little"))
    return pa.py_buffer(b"".join((whole[:at], *marks, footer)))


def checksum_on(before: int, data: bytes | memoryview) -> int:
    """Extend the CRC-32C `before` by `data`. Immutable data is not copied."""
    fixed = bytes(data) if isinstance(data, memoryview) and not data.readonly else pa.py_buffer(data)
    return google_crc32c.extend(before, fixed)


def sealed_footer(source: pa.NativeFile, *, whole: bool = False, needed: bool = True) -> bytes:
    """The verified footer with its length and magic; with `whole`, all bytes of the file are verified, too.

    Empty if there is no seal before it and none is `needed`. ValueError if it is damaged.
    """
    size = source.size()
    end = source.read_at(min(size, _END_GUESS), max(0, size - _END_GUESS))
    length = int.from_bytes(end[-8:-4], "little") + _END_SIZE + _SIZE
    if len(end) < length <= size:
        end = source.read_at(length, size - length)
    marks, footer = end[-length:][:_SIZE], end[-length:][_SIZE:]
    sound = marks[8:] == zlib.crc32(footer).to_bytes(4, "little")
    if sound and marks.startswith(_WHOLE):
        if whole and _checksum_of(source, size - length) != int.from_bytes(marks[4:8], "little"):
            raise ValueError(_WRONG)
        return footer
    if sound and marks[4:8] == _OLDER:
        return footer
    if needed or sound or marks.startswith(_WHOLE) or marks[4:8] == _OLDER:
        raise ValueError("its footer is not what was written")
    return b""


def sealed_parts(source: pa.NativeFile, size: int) -> Iterator[bytes]:
    """Read all of a file, `size` bytes at a time; ValueError, after the last part at the latest, if it is damaged."""
    at = source.size() - len(sealed_footer(source)) - _SIZE
    marks, known = source.read_at(_SIZE, at), 0
    for position in range(0, source.size(), size):
        part = source.read_at(size, position)
        known = checksum_on(known, part[: max(0, at - position)])
        yield part
    if marks.startswith(_WHOLE) and known != int.from_bytes(marks[4:8], "little"):
        raise ValueError(_WRONG)


def _checksum_of(source: pa.NativeFile, length: int) -> int:
    """CRC-32C of the first `length` bytes, read block by block."""
    known = 0
    for position in range(0, length, _BLOCK):
        known = checksum_on(known, source.read_at(min(_BLOCK, length - position), position))
    return known
