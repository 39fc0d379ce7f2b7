"""Decides whether a body arrives fast enough. Values in, values out: the time is an argument.

A body begins with `body_grace_s` of credit. Elapsed time reduces it, each `body_bytes_per_s` bytes add a second, and
it never exceeds its first value: so the rate is an average over the grace, the network may fail for as long, and a
fast beginning does not pay for a slow end. Beside it the whole body has `body_deadline_s`.

Time counts only between two sweeps that both found the server waiting for more of the body: a client is charged only
for its own slowness.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from ingest_api.http1.limits import WireLimits


class Progress(NamedTuple):
    """Progress of a connection. A body is one `part` of a request, a stream has many."""

    request: int
    part: int
    came: int
    """Bytes received of all bodies of the connection."""


class Arrival(Enum):
    """State of the server's reading of a body at one sweep."""

    HELD_UP = auto()
    """Not waiting for more: the app is busy, or too many bytes wait for it."""
    COUNTED = auto()
    """Reading, and holding the bytes received."""
    FREE = auto()
    """Reading a stream of which nothing is held: any byte keeps it alive, without a deadline."""


class TooSlow(Enum):
    RATE = auto()
    DEADLINE = auto()


@dataclass(slots=True)
class Pace:
    """State kept from one sweep to the next."""

    seen: Progress | None = None
    at: float = 0.0
    arrival: Arrival = Arrival.HELD_UP
    credit_s: float = 0.0
    spent_s: float = 0.0


def decide_pace(pace: Pace, seen: Progress, arrival: Arrival, now: float, limits: WireLimits) -> TooSlow | None:
    """Return the reason to refuse a body in this state, or None; updates `pace` for the next sweep."""
    before, elapsed = pace.seen, now - pace.at
    was_ready = pace.arrival is not Arrival.HELD_UP
    pace.seen, pace.at, pace.arrival = seen, now, arrival
    if before is None or seen[:2] != before[:2]:
        pace.credit_s, pace.spent_s = limits.body_grace_s, 0.0
        return None
    gained = seen.came - before.came
    taken_s = elapsed if was_ready and arrival is not Arrival.HELD_UP else 0.0
    if gained and (arrival is Arrival.FREE or not limits.body_bytes_per_s):
        pace.credit_s = limits.body_grace_s
    else:
        given_s = gained / limits.body_bytes_per_s if gained else 0.0
        pace.credit_s = min(limits.body_grace_s, pace.credit_s - taken_s + given_s)
    if arrival is Arrival.FREE:
        pace.spent_s = 0.0
    else:
        pace.spent_s += taken_s
    if arrival is Arrival.HELD_UP:  # also the state of a connection whose body was refused
        return None
    if pace.credit_s <= 0:
        return TooSlow.RATE
    return TooSlow.DEADLINE if pace.spent_s >= limits.body_deadline_s else None
