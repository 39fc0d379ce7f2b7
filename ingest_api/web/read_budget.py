"""Bound on the memory of answers to readers. Under pressure answers become small, not few."""

from __future__ import annotations

from typing import Final

from ingest_api.web.errors import try_again

#: The least that is lent to an answer, if it wants as much.
LEAST: Final = 64 * 1024


class ReadRoom:
    """Used by the loop alone. `held` is the number of bytes lent now.

    As each answer may hold at least one record, `held` may exceed `most`; at twice `most` further answers are refused.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def lend(self, wanted: int) -> Loan:
        """Lend room to an answer."""
        return Loan(self, wanted)


class Loan:
    """Room lent to one answer. A reader that waits for records ends it, and takes it again later."""

    __slots__ = ("_room", "_wanted", "size")

    def __init__(self, room: ReadRoom, wanted: int) -> None:
        self._room = room
        self._wanted = wanted
        self.size = 0
        self.take()

    def take(self) -> int:
        """Return the number of bytes of records that the answer may hold; 503 if far too much is held."""
        room = self._room
        self.end()
        if room.held >= 2 * room.most:
            raise try_again("too much of what was read is in memory at once; try again", code=50308)
        self._set(min(self._wanted, max(LEAST, (room.most - room.held) // 4)))
        return self.size

    def keep(self, size: int) -> None:
        """Set the loan to the size that was read."""
        self._set(size)

    def end(self) -> None:
        self._set(0)

    def _set(self, size: int) -> None:
        self._room.held += size - self.size
        self.size = size
