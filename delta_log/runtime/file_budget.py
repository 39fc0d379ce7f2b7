"""When a table is due. Pure: times in, times out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: `wait=table` brings a commit forward, but not closer than this to the one before.
SOONEST_S: Final = 0.1


def due_at(now: float, last_commit: float, *, interval: float, waiting: int, commit_bytes: int, wanted: bool) -> float:
    """At once for a table that was idle or has much waiting; else an interval after its last commit."""
    if waiting >= commit_bytes:
        return now
    return max(now, last_commit + (min(SOONEST_S, interval) if wanted else interval))


@dataclass(slots=True)
class FileBudget:
    """A bucket of files that may be written, filled at `rate` a second.

    When very many topics are busy their intervals stretch, instead of the disk and every reader's listing.
    """

    rate: float
    tokens: float = 0.0
    at: float = 0.0

    def spend(self, files: int, now: float) -> None:
        self._fill(now)
        self.tokens -= files

    def free_at(self, now: float) -> float:
        """When the next commit may begin: a debt is waited for."""
        self._fill(now)
        return now if self.tokens >= 0 else self.at - self.tokens / self.rate

    def _fill(self, now: float) -> None:
        """A time from before the last one fills nothing, and does not let the time since count twice."""
        self.tokens = min(self.rate, self.tokens + max(0.0, now - self.at) * self.rate)
        self.at = max(self.at, now)
