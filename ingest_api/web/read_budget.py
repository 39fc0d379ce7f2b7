"""How much of what readers asked for may be in memory at once. Under pressure answers become small, not few."""

from __future__ import annotations

from typing import Final

from ingest_api.web.errors import try_again

#: What everybody is given, however many there are.
LEAST: Final = 64 * 1024


class ReadRoom:
    """Used by the loop alone. `held` is what is lent now.

    As everybody is given at least one record, more may be lent than there is: at twice as much nobody is given more.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def lend(self, wanted: int) -> Loan:
        """Room for one answer."""
        return Loan(self, wanted)


class Loan:
    """Of one answer. Who waits meanwhile gives it back and takes it again."""

    __slots__ = ("_room", "_wanted", "size")

    def __init__(self, room: ReadRoom, wanted: int) -> None:
        self._room = room
        self._wanted = wanted
        self.size = 0
        self.take()

    def take(self) -> int:
        """How many bytes of records the answer may hold; 503 where too many hold too much."""
        room = self._room
        self.end()
        if room.held >= 2 * room.most:
            raise try_again("too much of what was read is in memory at once; try again", code=50308)
        self._set(min(self._wanted, max(LEAST, (room.most - room.held) // 4)))
        return self.size

    def keep(self, size: int) -> None:
        """So much was read."""
        self._set(size)

    def end(self) -> None:
        self._set(0)

    def _set(self, size: int) -> None:
        self._room.held += size - self.size
        self.size = size
