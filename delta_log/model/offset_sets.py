"""A large set of offsets of one partition, in little memory: at most two bytes each, a bit where they lie close.

    block = 65,536 neighbouring offsets     few in it: the low 16 bits of each     many: a bit for each that could be

It knows numbers alone, and travels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

Numbers = Any  # np.ndarray[Any, np.dtype[np.int64]]: its stubs say less than the law of each function

_BLOCK_BITS: Final = 16
_LOW: Final = (1 << _BLOCK_BITS) - 1
#: From here on a bit for each offset of the block takes less than two bytes for each that is there.
_MANY: Final = (1 << _BLOCK_BITS) // 16


@dataclass(slots=True)
class _Block:
    """`parts` until there are many, then `bits`."""

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
        """All from `low` to below `high`, and perhaps some beside; a small file asks for little of its block."""
        if self.bits is not None:
            first, last = max(low - base, 0) >> 3, min(high - base + 7, 1 << _BLOCK_BITS) >> 3
            return np.flatnonzero(np.unpackbits(self.bits[first:last], bitorder="little")) + (base + (first << 3))
        return np.sort(np.concatenate(self.parts)).astype(np.int64) + base


@dataclass(slots=True)
class OffsetSet:
    """No offset is added twice."""

    _blocks: dict[int, _Block] = field(default_factory=dict[int, _Block])

    def __len__(self) -> int:
        return sum(block.count for block in self._blocks.values())

    def add(self, offsets: Numbers) -> None:
        """Some more, in rising order."""
        if len(offsets) == 0:
            return
        high = offsets >> _BLOCK_BITS
        starts = [0, *(np.flatnonzero(np.diff(high)) + 1).tolist(), len(offsets)]
        for start, stop in pairwise(starts):
            self._blocks.setdefault(int(high[start]), _Block()).add(offsets[start:stop] & _LOW)

    def between(self, low: int, high: int) -> Numbers:
        """Those from `low` to below `high`, in rising order."""
        found = [self._blocks[number].offsets(number << _BLOCK_BITS, low, high) for number in self._numbers(low, high)]
        if not found:
            return np.zeros(0, np.int64)
        whole = np.concatenate(found)
        return whole[np.searchsorted(whole, low) : np.searchsorted(whole, high)]

    def part(self, low: int, high: int) -> OffsetSet:
        """A set that says the same between `low` and `high`; of others it may say anything."""
        return OffsetSet({number: self._blocks[number] for number in self._numbers(low, high)})

    def _numbers(self, low: int, high: int) -> list[int]:
        """Of the blocks there are, in order: by asking for each that there could be, or by looking at all there are."""
        first, last = low >> _BLOCK_BITS, (high - 1) >> _BLOCK_BITS
        if last - first < len(self._blocks):
            return [number for number in range(first, last + 1) if number in self._blocks]
        return sorted(number for number in self._blocks if first <= number <= last)
