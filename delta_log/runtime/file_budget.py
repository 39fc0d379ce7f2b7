"""Decides when a table commit is due. Pure: times in, times out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: `wait=table` brings a commit forward, but not closer than this to the previous one.
SOONEST_S: Final = 0.1


def due_at(now: float, last_commit: float, *, interval: float, waiting: int, commit_bytes: int, wanted: bool) -> float:
    """The time of a table's next commit: now if it was idle or has much pending, else an interval after the last."""
    if waiting >= commit_bytes:
        return now
    return max(now, last_commit + (min(SOONEST_S, interval) if wanted else interval))


@dataclass(slots=True)
class FileBudget:
    """A token bucket for files to be written, filled at `rate` a second.

    With very many busy topics, their commit intervals grow, instead of the load on the disk and readers' listings.
    """

    rate: float
    tokens: float = 0.0
    at: float = 0.0

    def spend(self, files: int, now: float) -> None:
        self._fill(now)
        self.tokens -= files

    def free_at(self, now: float) -> float:
        """The time at which the next commit may begin, after any debt is refilled."""
        self._fill(now)
        return now if self.tokens >= 0 else self.at - self.tokens / self.rate

    def _fill(self, now: float) -> None:
        """Add tokens for the time passed; an earlier time than the last adds none, and no time counts twice."""
        self.tokens = min(self.rate, self.tokens + max(0.0, now - self.at) * self.rate)
        self.at = max(self.at, now)
