"""Checks every connection of one event loop periodically, and acts on overdue ones. Decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ingest_api.http1.deadlines import Seen, Verdict, Watched, decide_verdict
from ingest_api.http1.limits import WireLimits


class Sweepable(Protocol):
    """A connection as the sweep sees it."""

    watched: Watched

    def look(self) -> Seen: ...

    def end(self, verdict: Verdict) -> None: ...


class Sweep:
    """A single timer for all connections, which runs while there is any connection."""

    def __init__(self, limits: WireLimits, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._connections: set[Sweepable] = set()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: Sweepable, loop: asyncio.AbstractEventLoop) -> None:
        self._connections.add(connection)
        if self._timer is None:
            self._timer = loop.call_later(self._limits.sweep_s, self._tick, loop)

    def discard(self, connection: Sweepable) -> None:
        self._connections.discard(connection)
        if not self._connections and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def sweep(self) -> None:
        now = self._clock()
        for connection in list(self._connections):
            verdict = decide_verdict(connection.watched, connection.look(), now, self._limits)
            if verdict is not Verdict.LEAVE:
                connection.end(verdict)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = loop.call_later(self._limits.sweep_s, self._tick, loop)
        self.sweep()
