"""Counts of failed delivery attempts of records. A value.

A member dies with many records in flight, and mostly once, so counts are kept for ranges of offsets, which are few.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Self

#: Ranges kept for a partition. Beyond that, the one at the end farther from the new range is dropped: its records are
#: counted from zero again, never too high.
_MOST: Final = 200
_ANY: Final = 2**63


class Stretch(NamedTuple):
    """Failed attempts of the offsets from `first` to before `next_offset`; `alone`: one of them was a delivery alone.

    Stored stretches of three values are older than `alone`.
    """

    first: int
    next_offset: int
    times: int
    alone: bool = False


class Attempts:
    """Failed attempts in one partition."""

    __slots__ = ("stretches",)

    def __init__(self, stretches: Iterable[Stretch] = ()) -> None:
        self.stretches = tuple(stretches)

    def add(self, first: int, next_offset: int, most: int = _ANY, *, alone: bool = False) -> Self:
        """Count one more attempt of a range; counts do not rise above `most`."""
        unknown = self._unknown(first, next_offset, alone=alone) if most > 0 else ()
        joined = _join([*self._shifted(first, next_offset, most, alone=alone), *unknown])
        while len(joined) > _MOST:
            joined.pop(0 if joined[0].next_offset <= first else -1)
        return type(self)(joined)

    def forget_below(self, offset: int) -> Self:
        return type(self)(_join([each._replace(first=max(each.first, offset)) for each in self.stretches]))

    def of(self, offset: int) -> int:
        found = self._at(offset)
        return 0 if found is None else found.times

    def was_alone(self, offset: int) -> bool:
        found = self._at(offset)
        return found is not None and found.alone

    def first_with(self, count: int, offset: int) -> int | None:
        """First offset from `offset` on that was tried at least `count` times."""
        if count <= 0:
            return offset
        found = (each for each in self.stretches if each.next_offset > offset and each.times >= count)
        return next((max(each.first, offset) for each in found), None)

    def _at(self, offset: int) -> Stretch | None:
        return next((each for each in self.stretches if each.first <= offset < each.next_offset), None)

    def _shifted(self, first: int, next_offset: int, most: int, *, alone: bool) -> Iterator[Stretch]:
        for each in self.stretches:
            low, high = max(each.first, first), min(each.next_offset, next_offset)
            if low >= high:
                yield each
            else:
                yield each._replace(next_offset=low)
                yield Stretch(low, high, max(each.times, min(each.times + 1, most)), each.alone or alone)
                yield each._replace(first=high)

    def _unknown(self, first: int, next_offset: int, *, alone: bool) -> Iterator[Stretch]:
        for each in self.stretches:
            if each.next_offset > first and each.first < next_offset:
                yield Stretch(first, each.first, 1, alone)
                first = each.next_offset
        yield Stretch(first, next_offset, 1, alone)


def _join(stretches: list[Stretch]) -> list[Stretch]:
    """Sort stretches, drop empty ones and merge equal neighbours."""
    kept: list[Stretch] = []
    for each in sorted(each for each in stretches if each.first < each.next_offset):
        if kept and kept[-1].next_offset == each.first and kept[-1][2:] == each[2:]:
            kept[-1] = kept[-1]._replace(next_offset=each.next_offset)
        else:
            kept.append(each)
    return kept
