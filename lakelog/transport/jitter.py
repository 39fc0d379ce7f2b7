"""Random numbers for the pauses of clients. They come from the system, and leave alone what a program has seeded."""

from __future__ import annotations

from random import SystemRandom


def draw() -> float:
    """From 0 to 1. Clients draw in threads of their own, at any time."""
    return SystemRandom().random()
