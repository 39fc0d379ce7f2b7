"""Lines out of bytes as they arrive: many at once where many are there, and none kept back that is whole. Pure.

A line ends with a line feed, and nothing else; what stands behind the last one is a line, if it is anything at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["read_blocks"]

#: So much is asked for at once, and so many lines are handed on at most.
_BYTES: Final = 1 << 18
_LINES: Final = 4_096


def read_blocks(read: Callable[[int], bytes | None]) -> Iterator[list[bytes]]:
    """Lines without their ends. `read` answers up to so many bytes, as soon as there are any, and none at the end.

    Where it answers None, as nothing came for a while, there is a block without lines.
    """
    begun: list[bytes] = []
    while (content := read(_BYTES)) != b"":
        if content is None:
            yield []
            continue
        lines = content.split(b"\n")
        if len(lines) == 1:
            begun.append(content)  # a long line is put together once
            continue
        begun.append(lines[0])
        lines[0] = b"".join(begun)
        begun = [last] if (last := lines.pop()) else []
        for at in range(0, len(lines), _LINES):
            yield lines[at : at + _LINES]
    if begun:
        yield [b"".join(begun)]
