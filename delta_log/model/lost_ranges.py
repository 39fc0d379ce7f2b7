"""Offsets that were given up, kept in a table property, so that the gap is not mistaken for damage. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

#: A table property: `<partition>:<first>-<last>`, with commas between them.
LOST: Final = "lakelog.lost.offsets"


class LostRange(NamedTuple):
    """The offsets from `first` to `last` of a partition; their records are lost for good."""

    partition: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.partition}:{self.first}-{self.last}"

    @property
    def size(self) -> int:
        return self.last - self.first + 1


def read_lost(properties: Mapping[str, str]) -> list[LostRange]:
    """Read the lost ranges of a table; text in another format is ignored."""
    found: list[LostRange] = []
    for text in properties.get(LOST, "").split(","):
        partition, _, rest = text.partition(":")
        first, _, last = rest.partition("-")
        if partition.isdecimal() and first.isdecimal() and last.isdecimal():
            found.append(LostRange(int(partition), int(first), int(last)))
    return found


def write_lost(ranges: Iterable[LostRange]) -> str:
    """Format ranges; adjacent and overlapping ones are merged."""
    return ",".join(map(str, merge_ranges(ranges)))


def merge_ranges(ranges: Iterable[LostRange]) -> list[LostRange]:
    merged: list[LostRange] = []
    for one in sorted(ranges):
        before = merged[-1] if merged else None
        if before is not None and before.partition == one.partition and one.first <= before.last + 1:
            merged[-1] = LostRange(one.partition, before.first, max(before.last, one.last))
        else:
            merged.append(one)
    return merged


def subtract(wanted: LostRange, known: Sequence[LostRange]) -> list[LostRange]:
    """The parts of a range that are in none of the others."""
    left: list[LostRange] = []
    at = wanted.first
    for one in merge_ranges(known):
        if one.partition != wanted.partition or one.last < at or one.first > wanted.last:
            continue
        if one.first > at:
            left.append(LostRange(wanted.partition, at, one.first - 1))
        at = max(at, one.last + 1)
    return [*left, LostRange(wanted.partition, at, wanted.last)] if at <= wanted.last else left


def count_within(ranges: Iterable[LostRange], partition: int, first: int, last: int) -> int:
    """Number of offsets from `first` to `last` that were given up."""
    return sum(max(0, min(one.last, last) - max(one.first, first) + 1) for one in ranges if one.partition == partition)
