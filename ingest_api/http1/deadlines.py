"""Decides which connections are overdue. Values in, values out: the time is an argument.

A connection keeps no times. At every sweep it reports its phase and its progress; the time runs as long as both stay
the same; that of a body is counted by `body_rate`. So a request costs no timer and no reading of the clock, and no
deadline expires early.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from ingest_api.http1.body_rate import Arrival, Pace, Progress, TooSlow, decide_pace
from ingest_api.http1.limits import WireLimits


class Phase(Enum):
    """Awaited event of a connection."""

    FIRST = auto()
    """The first byte of the connection."""
    HEAD = auto()
    """The rest of a head."""
    BODY = auto()
    """More of a body, for an app that takes it."""
    STREAM = auto()
    """More of a stream, for an app that holds nothing of it."""
    WORKING = auto()
    """The app."""
    IDLE = auto()
    """The next request."""
    LINGER = auto()
    """The client's end of the connection."""


class Seen(NamedTuple):
    """A connection at one sweep: its phase, its progress, and the bytes its client took (None: none are unsent)."""

    phase: Phase
    mark: Progress
    taken: int | None


class Verdict(Enum):
    """Decision on a connection."""

    LEAVE = auto()
    CLOSE = auto()
    REFUSE_HEAD = auto()
    REFUSE_BODY = auto()
    REFUSE_LATE_BODY = auto()
    ABORT = auto()


@dataclass(slots=True)
class Watched:
    """The last seen state of a connection, and since when it is unchanged."""

    seen: Seen | None = None
    phase_since: float = field(default=0.0)
    taken_since: float = field(default=0.0)
    pace: Pace = field(default_factory=Pace)


_OVERDUE = {
    Phase.FIRST: Verdict.CLOSE,
    Phase.HEAD: Verdict.REFUSE_HEAD,
    Phase.IDLE: Verdict.CLOSE,
    Phase.LINGER: Verdict.CLOSE,
}
_TOO_SLOW = {TooSlow.RATE: Verdict.REFUSE_BODY, TooSlow.DEADLINE: Verdict.REFUSE_LATE_BODY}


def decide_verdict(watched: Watched, seen: Seen, now: float, limits: WireLimits) -> Verdict:
    """Decide on a connection in this state; updates `watched` for the next sweep."""
    before, watched.seen = watched.seen, seen
    if before is None or seen[:2] != before[:2]:
        watched.phase_since = now
    if before is None or seen.taken != before.taken:
        watched.taken_since = now
    if seen.taken is not None and now - watched.taken_since >= limits.write_stall_s:
        return Verdict.ABORT
    arrival = _arrival(seen.phase)
    if arrival is not Arrival.HELD_UP or watched.pace.arrival is not Arrival.HELD_UP:
        too_slow = decide_pace(watched.pace, seen.mark, arrival, now, limits)
        if too_slow is not None:
            return _TOO_SLOW[too_slow]
    most = _most_s(seen.phase, limits)
    if most is None or now - watched.phase_since < most:
        return Verdict.LEAVE
    return _OVERDUE[seen.phase]


def _arrival(phase: Phase) -> Arrival:
    if phase is Phase.BODY:
        return Arrival.COUNTED
    return Arrival.FREE if phase is Phase.STREAM else Arrival.HELD_UP


def _most_s(phase: Phase, limits: WireLimits) -> float | None:
    match phase:
        case Phase.FIRST:
            return limits.idle_first_s
        case Phase.HEAD:
            return limits.head_s
        case Phase.IDLE:
            return limits.keep_alive_s
        case Phase.LINGER:
            return limits.linger_s
        case Phase.BODY | Phase.STREAM | Phase.WORKING:
            return None
