"""An object as a file for random reading, piece by piece.

Columns of a row group are adjacent and are read one by one, and a request costs as much as reading a megabyte: so more
is fetched than requested, and the last pieces are kept. It reads ranges through a callback, and knows no store.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Final

#: Minimum size of a fetch, and number of pieces kept.
PIECE: Final = 1024 * 1024
_KEPT: Final = 4


class RangedFile(io.RawIOBase):
    """A read-only file over range requests; for one thread at a time."""

    def __init__(self, get: Callable[[int, int], bytes], size: int, first: bytes = b"") -> None:
        super().__init__()
        self._get = get
        self._size = size
        self._at = 0
        self._pieces: list[tuple[int, bytes]] = [(0, first)] if first else []

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        data = self._range(self._at, self._at + wanted) if wanted else b""
        self._at += len(data)
        return data

    def _range(self, start: int, end: int) -> bytes:
        for begin, piece in self._pieces:
            if begin <= start and end <= begin + len(piece):
                return piece[start - begin : end - begin]
        piece = self._get(start, min(self._size, max(end, start + PIECE)))
        if len(piece) <= 2 * PIECE:
            self._pieces = [*self._pieces[1 - _KEPT :], (start, piece)]
        return piece[: end - start]
