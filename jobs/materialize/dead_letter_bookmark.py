"""Bookmark in the dead-letter topic: from where to look for letters of earlier runs. Pure.

Letters are found by their headers, so that a repeated batch need not store them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jobs.groups.dead_letters import Origin

__all__ = ["Seen", "bookmark"]


class Seen(NamedTuple):
    """A letter found in the dead-letter topic, with its position there."""

    partition: int
    offset: int
    origin: Origin


def bookmark(ends: Mapping[int, int], ahead: Iterable[Seen], reached: Mapping[int, int]) -> dict[int, int]:
    """Offsets from which the next run looks: before every letter of a record that the output has not reached."""
    found = dict(ends)
    for seen in ahead:
        if seen.origin.offset >= reached.get(seen.origin.partition, 0):
            found[seen.partition] = min(found.get(seen.partition, seen.offset), seen.offset)
    return found
