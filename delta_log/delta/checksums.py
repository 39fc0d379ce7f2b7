"""Checksums of all bytes of a parquet file, in the file itself. Knows where a footer is, and not what it says.

    PAR1  pages …  [lkl2  CRC-32C of all before  CRC-32 of all behind]  footer  its length  PAR1

The one behind is checked by whoever opens a file, as its footer can mislead or end a process; the one before, by
whoever reads all of it. Older files say nothing of what is before: `lkl1` and the CRC-32 of all behind.
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
#: What is read of a file's end at once; most footers fit.
_END_GUESS: Final = 32 * 1024
_BLOCK: Final = 1024 * 1024
_WRONG: Final = "it is not what was written: its checksum is wrong"


def seal(data: pa.Buffer, before: int = 0) -> pa.Buffer:
    """The same file with its checksums. Of one that is written in parts, the last one; `before` is of the others."""
    whole = memoryview(data)
    at = len(whole) - _END_SIZE - int.from_bytes(whole[-8:-4], "little")
    footer = whole[at:]
    before = google_crc32c.extend(before, data.slice(0, at))
    marks = (_WHOLE, before.to_bytes(4, "little"), zlib.crc32(footer).to_bytes(4, "little"))
    return pa.py_buffer(b"".join((whole[:at], *marks, footer)))


def checksum_on(before: int, data: bytes | memoryview) -> int:
    """CRC-32C of what has the checksum `before` and of what follows it. Nothing is copied that cannot change."""
    fixed = bytes(data) if isinstance(data, memoryview) and not data.readonly else pa.py_buffer(data)
    return google_crc32c.extend(before, fixed)


def sealed_footer(source: pa.NativeFile, *, whole: bool = False, needed: bool = True) -> bytes:
    """The footer with its length and magic, as it was written; with `whole`, of a file that is as it was written.

    Empty where no seal is in front of it nor `needed`. ValueError for what is damaged.
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
    """All of a file, so many bytes at a time; ValueError, behind the last of them at latest, for what is damaged."""
    at = source.size() - len(sealed_footer(source)) - _SIZE
    marks, known = source.read_at(_SIZE, at), 0
    for position in range(0, source.size(), size):
        part = source.read_at(size, position)
        known = checksum_on(known, part[: max(0, at - position)])
        yield part
    if marks.startswith(_WHOLE) and known != int.from_bytes(marks[4:8], "little"):
        raise ValueError(_WRONG)


def _checksum_of(source: pa.NativeFile, length: int) -> int:
    """Of the first `length` bytes, a block at a time."""
    known = 0
    for position in range(0, length, _BLOCK):
        known = checksum_on(known, source.read_at(min(_BLOCK, length - position), position))
    return known
