"""The Spark session shared by jobs of this process: the first one starts it, and the last one ends it.

A process has one session, so a job that begins while it exists, or is starting, gets it; it must not end with the job
that started it. A session that existed before any job is never ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["OpenSession", "Sessions"]


@dataclass(frozen=True, slots=True)
class OpenSession:
    """A session in use; call `close` once. A session not started by jobs (`is_own` is false) continues after that."""

    spark: Any
    close: Callable[[], None]
    is_own: bool


class Sessions:
    """Shared session with a count of its users; `end` ends it. Thread-safe."""

    def __init__(self, end: Callable[[Any], None]) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._own: Any = None
        self._users = 0

    def open(self, find: Callable[[], Any], build: Callable[[], Any]) -> OpenSession:
        """Open the session: an existing one from `find`, or one started by `build`. Callers wait while it starts."""
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
