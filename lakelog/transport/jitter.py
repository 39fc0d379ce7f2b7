"""Random numbers for the pauses of clients, from the system: a program's seeded generator is not touched."""

from __future__ import annotations

from random import SystemRandom


def draw() -> float:
    """Random number from 0 to 1; may be called by any thread."""
    return SystemRandom().random()
