"""How much of what readers asked for may be in memory at once. Under pressure answers become small, not few."""

from __future__ import annotations

from typing import Final

#: What everybody is given, however many there are.
LEAST: Final = 64 * 1024


class ReadRoom:
    """Used by the loop alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.held = 0

    def take(self, wanted: int) -> int:
        """How many bytes of records an answer may hold; given back by `give_back`."""
        granted = min(wanted, max(LEAST, (self._most - self.held) // 4))
        self.held += granted
        return granted

    def give_back(self, granted: int) -> None:
        self.held -= granted
