"""A reader of flatbuffers that trusts no offset in them. Pure.

Every read lies within the given bytes: `struct` refuses one that ends behind them, and one that could begin before
them is checked here. Wrong bytes raise `Malformed` or `struct.error`.
"""

from __future__ import annotations

import struct
from typing import Any, Final

_INT: Final = struct.Struct("<i").unpack_from
_WORD: Final = struct.Struct("<I").unpack_from
_SHORT: Final = struct.Struct("<H").unpack_from
_VTABLE_HEAD: Final = 4
#: Limits for tables and texts: more would cost time for no information.
_MOST_FIELDS: Final = 16
_MOST_TEXT: Final = 65_535


class Malformed(ValueError):
    """Bytes that are not a flatbuffer of the expected kind."""


class Table:
    """A table at a position in bytes. Fields are read by their number in the format's schema."""

    __slots__ = ("_at", "_data", "_slots")

    def __init__(self, data: bytes, at: int) -> None:
        (back,) = _INT(data, at)
        vtable = at - back
        if vtable < 0:
            raise Malformed("a table without a description")
        (size,) = _SHORT(data, vtable)
        count = min((size - _VTABLE_HEAD) // 2, _MOST_FIELDS)
        self._slots: tuple[int, ...] = struct.unpack_from(f"<{count}H", data, vtable + 4)
        self._data, self._at = data, at

    @classmethod
    def root(cls, data: bytes) -> Table:
        return cls(data, *_WORD(data, 0))

    def number(self, field: int, code: str, default: int = 0) -> int:
        """A number, or a boolean, by its code in `struct`."""
        at = self._place(field)
        return int(struct.unpack_from(f"<{code}", self._data, at)[0]) if at else default

    def table(self, field: int) -> Table | None:
        at = self._pointed(field)
        return Table(self._data, at) if at else None

    def tables(self, field: int, *, most: int) -> list[Table]:
        """Tables of a vector, at most the first `most`."""
        start, count = self._vector(field, 4)
        places = range(start, start + 4 * min(count, most), 4)
        return [Table(self._data, place + _WORD(self._data, place)[0]) for place in places]

    def count(self, field: int) -> int:
        """Length of a vector of tables."""
        return self._vector(field, 4)[1]

    def pairs(self, field: int) -> tuple[int, ...]:
        """The numbers of a vector of structs of two 64-bit numbers, one behind the other."""
        start, count = self._vector(field, 16)
        return struct.unpack_from(f"<{2 * count}q", self._data, start) if count else ()

    def numbers(self, field: int) -> tuple[int, ...]:
        """A vector of 64-bit numbers."""
        start, count = self._vector(field, 8)
        return struct.unpack_from(f"<{count}q", self._data, start) if count else ()

    def text(self, field: int) -> str | None:
        start, size = self._vector(field, 1)
        if size > _MOST_TEXT:
            raise Malformed(f"a name of {size} bytes")
        return self._data[start : start + size].decode() if start else None

    def has(self, field: int) -> bool:
        return bool(self._place(field))

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        at = self._pointed(field)
        if not at:
            return 0, 0
        (count,) = _WORD(self._data, at)
        if at + 4 + width * count > len(self._data):
            raise Malformed("a list that ends behind its message")
        return at + 4, count

    def _place(self, field: int) -> int:
        slots = self._slots
        return self._at + slots[field] if field < len(slots) and slots[field] else 0

    def _pointed(self, field: int) -> int:
        at = self._place(field)
        return at + int(_WORD(self._data, at)[0]) if at else 0


def needed(found: Any, what: str) -> Any:
    """Return a required value; raises Malformed if it is missing."""
    if found is None:
        raise Malformed(f"there is no {what}")
    return found
