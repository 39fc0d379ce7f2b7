"""One read of several partitions within one budget. Decides who may give how much; must not know HTTP.

Each partition has a share, so that a full one does not keep back the others; what is left of the shares goes to those
that have more. Where there is no room for everybody, another partition is the first after each read that gave
something. So every partition comes in the end, though nothing is remembered between two reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from delta_log import Fetched

#: Of a partition, from an offset on: at most so many records and about so many bytes, but at least one record.
Read = Callable[[int, int, int, int], Fetched]


def read_merged(read: Read, start: Mapping[int, int], records: int, size: int) -> tuple[list[Fetched], dict[int, int]]:
    """What there is from `start` on, and where each partition goes on."""
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
    """The partitions in the order in which they are read; another one is the first when something was read."""
    partitions = sorted(positions)
    first = sum(positions.values()) % max(1, len(partitions))
    return partitions[first:] + partitions[:first]
