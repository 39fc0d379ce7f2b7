"""A large set of offsets of one partition, in little memory: at most two bytes each, a bit where they are dense.

    block = 65,536 adjacent offsets     few in it: the low 16 bits of each     many: a bit for each possible one

It knows numbers alone, and can be serialised.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

Numbers = Any  # np.ndarray[Any, np.dtype[np.int64]]: its stubs are less exact than each function's docstring

_BLOCK_BITS: Final = 16
_LOW: Final = (1 << _BLOCK_BITS) - 1
#: From this number on, a bit for each offset of the block takes less than two bytes for each one in the set.
_MANY: Final = (1 << _BLOCK_BITS) // 16


@dataclass(slots=True)
class _Block:
    """The offsets of a block: as `parts` while they are few, then as `bits`."""

    parts: list[Numbers] = field(default_factory=list[Numbers])
    bits: Numbers | None = None
    count: int = 0

    def add(self, low: Numbers) -> None:
        self.count += len(low)
        if self.bits is None:
            self.parts.append(low.astype(np.uint16))
            if self.count <= _MANY:
                return
            low = np.concatenate(self.parts)
            self.bits, self.parts = np.zeros(1 << (_BLOCK_BITS - 3), np.uint8), []
        bit = np.left_shift(np.uint8(1), (low & 7).astype(np.uint8))
        np.bitwise_or.at(self.bits, low >> 3, bit)

    def offsets(self, base: int, low: int, high: int) -> Numbers:
        """At least the offsets from `low` to below `high`; a narrow range decodes only a part of `bits`."""
        if self.bits is not None:
            first, last = max(low - base, 0) >> 3, min(high - base + 7, 1 << _BLOCK_BITS) >> 3
            return np.flatnonzero(np.unpackbits(self.bits[first:last], bitorder="little")) + (base + (first << 3))
        return np.sort(np.concatenate(self.parts)).astype(np.int64) + base


@dataclass(slots=True)
class OffsetSet:
    """A set of offsets; no offset may be added twice."""

    _blocks: dict[int, _Block] = field(default_factory=dict[int, _Block])

    def __len__(self) -> int:
        return sum(block.count for block in self._blocks.values())

    def add(self, offsets: Numbers) -> None:
        """Add offsets, given in rising order."""
        if len(offsets) == 0:
            return
        high = offsets >> _BLOCK_BITS
        starts = [0, *(np.flatnonzero(np.diff(high)) + 1).tolist(), len(offsets)]
        for start, stop in pairwise(starts):
            self._blocks.setdefault(int(high[start]), _Block()).add(offsets[start:stop] & _LOW)

    def between(self, low: int, high: int) -> Numbers:
        """The offsets from `low` to below `high`, in rising order."""
        found = [self._blocks[number].offsets(number << _BLOCK_BITS, low, high) for number in self._numbers(low, high)]
        if not found:
            return np.zeros(0, np.int64)
        whole = np.concatenate(found)
        return whole[np.searchsorted(whole, low) : np.searchsorted(whole, high)]

    def part(self, low: int, high: int) -> OffsetSet:
        """A set that agrees with this one from `low` to below `high`; outside it may differ."""
        return OffsetSet({number: self._blocks[number] for number in self._numbers(low, high)})

    def _numbers(self, low: int, high: int) -> list[int]:
        """The existing blocks of a range, in order: probes each possible block, or scans all existing ones."""
        first, last = low >> _BLOCK_BITS, (high - 1) >> _BLOCK_BITS
        if last - first < len(self._blocks):
            return [number for number in range(first, last + 1) if number in self._blocks]
        return sorted(number for number in self._blocks if first <= number <= last)
