"""Decides whether a body comes fast enough. Values in, values out: the time is an argument.

A body begins with `body_grace_s` of credit. Time takes of it, each `body_bytes_per_s` bytes give a second back, and
there is never more than at the beginning: so the rate is an average over the grace, a line may fail for as long, and
a fast beginning buys no slow end. Beside it all of the body has `body_deadline_s`.

Time counts only between two looks that both found the server waiting for more of the body: a client pays for its own
slowness alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from ingest_api.http1.limits import WireLimits


class Progress(NamedTuple):
    """How far a connection is. A body is one `part` of a request, a stream has many."""

    request: int
    part: int
    came: int
    """Bytes of all bodies of the connection."""


class Arrival(Enum):
    """What the server does for a body at one look."""

    HELD_UP = auto()
    """It does not wait for more: the app is busy, or too much waits for it."""
    COUNTED = auto()
    """It reads, and holds what came."""
    FREE = auto()
    """It reads a stream of which it holds nothing: any byte keeps that going, for as long as wanted."""


class TooSlow(Enum):
    RATE = auto()
    DEADLINE = auto()


@dataclass(slots=True)
class Pace:
    """What one look leaves for the next."""

    seen: Progress | None = None
    at: float = 0.0
    arrival: Arrival = Arrival.HELD_UP
    credit_s: float = 0.0
    spent_s: float = 0.0


def decide_pace(pace: Pace, seen: Progress, arrival: Arrival, now: float, limits: WireLimits) -> TooSlow | None:
    """What is wrong with a body that is seen like this now; `pace` remembers it for the next look."""
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
    if arrival is Arrival.HELD_UP:  # also what is left of a connection whose body was refused
        return None
    if pace.credit_s <= 0:
        return TooSlow.RATE
    return TooSlow.DEADLINE if pace.spent_s >= limits.body_deadline_s else None
