"""Decides which connection has taken too long. Values in, values out: the time is an argument.

A connection keeps no times. At every sweep it says what it is doing and how far it is; as long as both stay the same,
the time runs. So a request costs no timer and no look at the clock, and no deadline strikes early.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from ingest_api.wire.limits import WireLimits


class Phase(Enum):
    """What a connection waits for."""

    FIRST = auto()
    """The first byte there ever was."""
    HEAD = auto()
    """The rest of a head."""
    BODY = auto()
    """More of a body, for an app that takes it."""
    WORKING = auto()
    """The app."""
    IDLE = auto()
    """The next request."""
    LINGER = auto()
    """The client's end of the connection."""


class Seen(NamedTuple):
    """A connection at one look: its phase, how far that is, and what its reader took (None: nothing waits for it)."""

    phase: Phase
    mark: tuple[int, int]
    taken: int | None


class Verdict(Enum):
    """What becomes of a connection."""

    LEAVE = auto()
    CLOSE = auto()
    REFUSE_HEAD = auto()
    REFUSE_BODY = auto()
    ABORT = auto()


@dataclass(slots=True)
class Watched:
    """Since when a connection was seen as it is."""

    seen: Seen | None = None
    phase_since: float = field(default=0.0)
    taken_since: float = field(default=0.0)


_OVERDUE = {
    Phase.FIRST: Verdict.CLOSE,
    Phase.HEAD: Verdict.REFUSE_HEAD,
    Phase.BODY: Verdict.REFUSE_BODY,
    Phase.IDLE: Verdict.CLOSE,
    Phase.LINGER: Verdict.CLOSE,
}


def decide_verdict(watched: Watched, seen: Seen, now: float, limits: WireLimits) -> Verdict:
    """What becomes of a connection that is seen like this now; `watched` remembers it for the next look."""
    before, watched.seen = watched.seen, seen
    if before is None or seen[:2] != before[:2]:
        watched.phase_since = now
    if before is None or seen.taken != before.taken:
        watched.taken_since = now
    if seen.taken is not None and now - watched.taken_since >= limits.write_stall_s:
        return Verdict.ABORT
    most = _most_s(seen.phase, limits)
    if most is None or now - watched.phase_since < most:
        return Verdict.LEAVE
    return _OVERDUE[seen.phase]


def _most_s(phase: Phase, limits: WireLimits) -> float | None:
    match phase:
        case Phase.FIRST:
            return limits.idle_first_s
        case Phase.HEAD:
            return limits.head_s
        case Phase.BODY:
            return limits.body_progress_s
        case Phase.IDLE:
            return limits.keep_alive_s
        case Phase.LINGER:
            return limits.linger_s
        case Phase.WORKING:
            return None
