"""Splits arriving bytes into lines: many at once if many are there; a complete line is never held back. Pure.

Only a line feed ends a line; bytes behind the last one, if any, are a line, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["read_blocks"]

#: The most bytes of one read, and the most lines of one block.
_BYTES: Final = 1 << 18
_LINES: Final = 4_096


def read_blocks(read: Callable[[int], bytes | None]) -> Iterator[list[bytes]]:
    """Yield blocks of lines without their ends. `read` returns bytes as soon as there are any, b"" at the end.

    If it returns None, as nothing arrived for a while, an empty block is yielded.
    """
    begun: list[bytes] = []
    while (content := read(_BYTES)) != b"":
        if content is None:
            yield []
            continue
        lines = content.split(b"\n")
        if len(lines) == 1:
            begun.append(content)  # a long line is joined only once
            continue
        begun.append(lines[0])
        lines[0] = b"".join(begun)
        begun = [last] if (last := lines.pop()) else []
        for at in range(0, len(lines), _LINES):
            yield lines[at : at + _LINES]
    if begun:
        yield [b"".join(begun)]
