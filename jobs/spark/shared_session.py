"""The Spark session that jobs of this process have started: all of them use it, and the last one ends it.

A process has one, so a job that begins while another's is there, or is starting, is given that; it must not end with
whoever began first. A session that was there before any job is nobody's to end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["OpenSession", "Sessions"]


@dataclass(frozen=True, slots=True)
class OpenSession:
    """`close` once, when it is not used any more. One that is not our own goes on behind that."""

    spark: Any
    close: Callable[[], None]
    is_own: bool


class Sessions:
    """`find` answers the one that somebody else has, if any; `build` starts one, `end` ends it. For many threads."""

    def __init__(self, end: Callable[[Any], None]) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._own: Any = None
        self._users = 0

    def open(self, find: Callable[[], Any], build: Callable[[], Any]) -> OpenSession:
        """Who comes while it starts waits for it."""
        with self._lock:
            if not self._users:
                found = find()
                if found is not None:
                    return OpenSession(found, lambda: None, is_own=False)
                self._own = build()
            self._users += 1
            return OpenSession(self._own, self._let_go, is_own=True)

    def _let_go(self) -> None:
        with self._lock:
            self._users -= 1
            if not self._users:
                session, self._own = self._own, None
                self._end(session)
