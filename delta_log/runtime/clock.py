"""The wall clock; no other module reads it."""

from __future__ import annotations

import time


def wall_clock_ms() -> int:
    """Milliseconds since 1970 by this host's clock."""
    return time.time_ns() // 1_000_000
