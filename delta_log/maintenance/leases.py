"""Who does a piece of work that several could do: a lease, taken for a time and given up early. Pure.

    <number>.json       holder, when it said so, until when it holds; the highest number counts

A number is taken by put-if-absent, so two who want the same one are told apart by the store. A lease saves work, it
does not make anything safe: whoever loses one without noticing goes on, so what is done under it must bear company.
It knows neither a store nor a clock: all times are those of the store, so that no two hosts' clocks are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from delta_log.model.clock_tolerance import CLOCK_TOLERANCE_MS

#: How long a lease that has ended stays to be seen, before whoever passes by sweeps it away.
SWEPT_AFTER_MS: Final = 24 * 3_600_000


class Lease(msgspec.Struct, frozen=True):
    """`holder` names a process, to people and to itself; `said_ms` is when it said so last."""

    holder: str
    said_ms: int
    until_ms: int

    def holds_at(self, now_ms: int) -> bool:
        """One that was said in the future is of a clock that was turned back since: it must not hold that long."""
        return self.said_ms - CLOCK_TOLERANCE_MS <= now_ms < self.until_ms


@dataclass(frozen=True, slots=True)
class Free:
    """The number to take, by put-if-absent."""

    number: int


@dataclass(frozen=True, slots=True)
class Held:
    """Somebody else's, for now."""

    lease: Lease


def decide_taking(number: int, newest: Lease | None, now_ms: int) -> Free | Held:
    """`newest` has the highest number, 0 where there is none; it is None where it cannot be read."""
    if newest is not None and newest.holds_at(now_ms):
        return Held(newest)
    return Free(number + 1)


def check_won(number: int, now_there: Iterable[int]) -> bool:
    """Whether a number that we put counts.

    It may have been free because it was given out, overtaken and swept away while we looked away; then a higher one is
    there. The same tells a holder who slept whether somebody took over.
    """
    return max(now_there, default=0) == number


def plan_clearing(now_there: Iterable[int], number: int) -> Sequence[int]:
    """What the holder of a number clears away: all that it overtook, the oldest first."""
    return sorted(each for each in now_there if each < number)


def is_forgotten(newest: Lease | None, written_ms: int, now_ms: int) -> bool:
    """Whether nobody will miss the leases of a name: the last of them ended long ago."""
    ended_ms = written_ms if newest is None else newest.until_ms
    return now_ms - ended_ms > SWEPT_AFTER_MS
