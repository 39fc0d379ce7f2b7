"""Counters of groups, kept by the loop that owns them: plain numbers, read on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from consumer_groups.decisions.admin import GroupSummary
from consumer_groups.decisions.lag import Progress
from consumer_groups.model.records import OffsetRecord
from consumer_groups.state.decision import Decision
from delta_log.runtime.meters import Distribution, Histogram

COMMIT_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class GroupSample:
    """Sample of a group; `progress` is None if it exceeded the limit of partitions."""

    summary: GroupSummary
    progress: Progress | None


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """Statistics of groups at about one moment, and a sample of them."""

    groups: int
    samples: tuple[GroupSample, ...]
    commits: int
    rebalances: int
    given_up: int
    commit_seconds: Distribution


class GroupMeter:
    """Counters of groups. `commits`: changes that stored offsets, of any origin; `seconds`: duration of commits.

    `given_up`: records that were tried too often.
    """

    __slots__ = ("commits", "given_up", "rebalances", "seconds")

    def __init__(self) -> None:
        self.commits = self.rebalances = self.given_up = 0
        self.seconds = Histogram(COMMIT_BOUNDS_S)

    def stored(self, decision: Decision[object], generation: int, *, commits: bool) -> None:
        """Count a durable decision; `generation` is the group's before it."""
        self.rebalances += decision.generation > generation
        self.commits += commits


def stores_offsets(decision: Decision[object]) -> bool:
    return any(type(record) is OffsetRecord for record in decision.records)
