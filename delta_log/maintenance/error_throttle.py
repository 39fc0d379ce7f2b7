"""What the upkeep says of tables that it cannot care for: once, and again while that goes on, but not at every pass.

A damaged table would fill the log with a line a second else, and hide what else there is to read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from delta_log.model.errors import LakelogError, NotAvailable, PlanOutdated, TopicClosed

REPEAT_EVERY_S: Final = 60.0
_log = logging.getLogger("delta_log.maintenance.background")


class ErrorThrottle:
    """Of one log. For the one thread that does its upkeep."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        #: of each table that is in trouble: which, and when that was said
        self._said: dict[str, tuple[str, float]] = {}

    def settle(self, table: str) -> None:
        """It was cared for: the next trouble is news."""
        self._said.pop(table, None)

    def say(self, table: str, error: Exception) -> None:
        why, now = repr(error), self._clock_s()
        before, at = self._said.get(table, ("", float("-inf")))
        if why == before and now - at < REPEAT_EVERY_S:
            return
        self._said[table] = (why, now)
        if not isinstance(error, LakelogError):
            _log.error("upkeep of %s; the other topics' goes on", table, exc_info=error)
        elif isinstance(error, PlanOutdated | NotAvailable) and not isinstance(error, TopicClosed):
            _log.warning("upkeep of %s is put off: %s", table, error)
        else:
            _log.error("upkeep of %s: %s", table, error)
