"""Where in the dead-letter topic to look for letters of a run again. Pure.

All are found again by their headers, so a batch that is done a second time need not store them a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jobs.groups.dead_letters import Origin

__all__ = ["Seen", "bookmark"]


class Seen(NamedTuple):
    """A letter in the dead-letter topic, by where it lies there."""

    partition: int
    offset: int
    origin: Origin


def bookmark(ends: Mapping[int, int], ahead: Iterable[Seen], reached: Mapping[int, int]) -> dict[int, int]:
    """Where the next run begins to look: before every letter that stands for a record which was not reached."""
    found = dict(ends)
    for seen in ahead:
        if seen.origin.offset >= reached.get(seen.origin.partition, 0):
            found[seen.partition] = min(found.get(seen.partition, seen.offset), seen.offset)
    return found
