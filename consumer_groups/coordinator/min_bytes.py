"""Checks `fetch.min.bytes` for a waiting poll: new records are counted once, and not kept meanwhile.

It must not know which poll waits, or for how long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from consumer_groups.coordinator.read_records import Room
from consumer_groups.decisions.last_attempt import Read
from delta_log import LakelogError, Log


@dataclass(slots=True)
class Counted:
    """Records of one partition counted so far."""

    next_offset: int
    records: int = 0
    bytes: int = 0


class Gathering:
    """Count of one poll. Reads that are no longer planned, after a move or a seek, do not count."""

    def __init__(self, min_bytes: int) -> None:
        self._min_bytes = min_bytes
        self._counted: dict[Read, Counted] = {}

    @property
    def wants_any(self) -> bool:
        """True if the first record is enough."""
        return self._min_bytes <= 1

    def count(self, log: Log, reads: Sequence[Read], room: Room) -> bool:
        """Return whether there is enough to answer, or no room for more. Run in a thread.

        A partition that cannot be read is enough: reading it then reports the error. So is a read that ends before a
        record that is skipped or delivered alone: waiting brings no more of it.
        """
        if any(read.limit is not None for read in reads):
            return True
        self._counted = {read: self._counted.get(read) or Counted(read.offset) for read in reads}
        wanted = min(self._min_bytes, room.bytes)
        for read, counted in self._counted.items():
            records, size = self._sums()
            if size >= wanted or records >= room.records:
                return True
            try:
                fetched = log.read(
                    *read.partition, counted.next_offset, max_records=room.records - records, max_bytes=wanted - size
                )
            except LakelogError:
                return True
            counted.next_offset = fetched.next_offset
            counted.records += fetched.count
            counted.bytes += fetched.size
        records, size = self._sums()
        return size >= wanted or records >= room.records

    def waits(self) -> tuple[Read, ...]:
        """Reads at the offsets where more records would appear."""
        return tuple(replace(read, offset=counted.next_offset) for read, counted in self._counted.items())

    def _sums(self) -> tuple[int, int]:
        return sum(each.records for each in self._counted.values()), sum(each.bytes for each in self._counted.values())
