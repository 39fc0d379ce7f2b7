"""The wall clock, and its agreement with another one: age decides what is deleted, by a clock that must be right."""

from __future__ import annotations

import time
from typing import Final

from delta_log.errors import StorageRefused

CLOCK_TOLERANCE_MS: Final = 5 * 60 * 1000


def check_clocks(host_ms: int, other_ms: int, whose: str = "the store's") -> None:
    """Refuse where this host and another do not agree what time it is."""
    apart = abs(host_ms - other_ms)
    if apart > CLOCK_TOLERANCE_MS:
        raise StorageRefused(
            "what goes by age",
            f"this host's clock and {whose} are {apart // 1000} s apart; mend the clock first",
            by="",
        )


def wall_clock_ms() -> int:
    """Milliseconds since 1970 by this host's clock."""
    return time.time_ns() // 1_000_000
