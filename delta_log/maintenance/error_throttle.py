"""Throttles log messages about tables whose upkeep fails: the first is logged, repeats only once a minute.

Otherwise a damaged table would write a line a second, and hide all other lines of the log.
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
    """The throttle of one root's upkeep. Only for the upkeep thread."""

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        #: for each failing table: the last logged error and its time
        self._said: dict[str, tuple[str, float]] = {}

    def settle(self, table: str) -> None:
        """Note a success: the next error is logged at once."""
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
