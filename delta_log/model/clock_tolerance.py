"""Compares two clocks: deletion goes by age, and with a wrong clock it would delete young records. Pure."""

from __future__ import annotations

from typing import Final

from delta_log.model.errors import StorageRefused

CLOCK_TOLERANCE_MS: Final = 5 * 60 * 1000


def check_clocks(host_ms: int, other_ms: int, whose: str = "the store's") -> None:
    """Refuse if this host's clock and another differ by more than the tolerance."""
    apart = abs(host_ms - other_ms)
    if apart > CLOCK_TOLERANCE_MS:
        raise StorageRefused(
            "what goes by age",
            f"this host's clock and {whose} are {apart // 1000} s apart; mend the clock first",
            by="",
        )
