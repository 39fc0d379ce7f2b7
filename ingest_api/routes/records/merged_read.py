"""A read of several partitions within one budget. Decides the share of each; must not know HTTP.

Each partition has a share, so that a full one does not starve the others; unused shares go to partitions with more
records. If the budget is too small for all, the read after one that found records begins with another partition. So
every partition gets its turn, though no state is kept between reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from delta_log import Fetched

#: Reads a partition from an offset on: at most so many records and about so many bytes, but at least one record.
Read = Callable[[int, int, int, int], Fetched]


def read_merged(read: Read, start: Mapping[int, int], records: int, size: int) -> tuple[list[Fetched], dict[int, int]]:
    """Return the records from `start` on, and the next offset of each partition."""
    positions = dict(start)
    found: list[Fetched] = []
    waiting = turns_of(start)
    for shared in (True, False):
        more: list[int] = []
        for index, partition in enumerate(waiting):
            if records <= 0 or size <= 0:
                return found, positions
            left = len(waiting) - index if shared else 1
            fetched = read(partition, positions[partition], max(1, records // left), max(1, size // left))
            positions[partition] = fetched.next_offset
            if fetched.next_offset < fetched.end_offset:
                more.append(partition)
            if fetched.count:
                found.append(fetched)
                records -= fetched.count
                size -= sum(batch.nbytes for batch in fetched.batches)
        waiting = more
    return found, positions


def turns_of(positions: Mapping[int, int]) -> list[int]:
    """Return the order in which partitions are read; another one is the first after records were read."""
    partitions = sorted(positions)
    first = sum(positions.values()) % max(1, len(partitions))
    return partitions[first:] + partitions[:first]
