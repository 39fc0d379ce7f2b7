"""Leases choose one worker for work that several could do: taken for a time, released early. Pure.

    <number>.json       holder, time of the last renewal, end of the lease; the highest number counts

A number is taken by put-if-absent, so of two processes that want the same one the store accepts one. A lease saves
work and guards nothing: a holder that loses it unnoticed goes on, so the work must tolerate a concurrent worker.
This module knows neither a store nor a clock: all times are the store's, so that clocks of hosts are never compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from delta_log.model.clock_tolerance import CLOCK_TOLERANCE_MS

#: Time that an expired lease is kept before any process may sweep it.
SWEPT_AFTER_MS: Final = 24 * 3_600_000


class Lease(msgspec.Struct, frozen=True):
    """The content of a lease. `holder` names a process, for people and for itself; `said_ms` is the last renewal."""

    holder: str
    said_ms: int
    until_ms: int

    def holds_at(self, now_ms: int) -> bool:
        """Check the validity. A renewal in the future means that the clock was set back: such a lease does not hold."""
        return self.said_ms - CLOCK_TOLERANCE_MS <= now_ms < self.until_ms


@dataclass(frozen=True, slots=True)
class Free:
    """The lease is free: `number` is the one to take, by put-if-absent."""

    number: int


@dataclass(frozen=True, slots=True)
class Held:
    """The lease is held by another process for now."""

    lease: Lease


def decide_taking(number: int, newest: Lease | None, now_ms: int) -> Free | Held:
    """Decide whether to take a lease. `number` is the highest, 0 if there is none; `newest` is None if unreadable."""
    if newest is not None and newest.holds_at(now_ms):
        return Held(newest)
    return Free(number + 1)


def check_won(number: int, now_there: Iterable[int]) -> bool:
    """Check that a number just created is the highest.

    It may have been free because it was taken, overtaken and swept since the listing; then there is a higher one. The
    same check tells a holder that was suspended whether another one took over.
    """
    return max(now_there, default=0) == number


def plan_clearing(now_there: Iterable[int], number: int) -> Sequence[int]:
    """The lower numbers, which the holder of a number deletes, the oldest first."""
    return sorted(each for each in now_there if each < number)


def is_forgotten(newest: Lease | None, written_ms: int, now_ms: int) -> bool:
    """Check that the last lease of a name ended so long ago that all of the name's leases can be deleted."""
    ended_ms = written_ms if newest is None else newest.until_ms
    return now_ms - ended_ms > SWEPT_AFTER_MS
