"""Detects topics whose retention does not run: measures overdue data, and warns once it is a day overdue.

Only a job removes what is too old, so if jobs stand still a log grows without any other sign.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from delta_log.maintenance.retention import Overdue, measure_overdue
from delta_log.topics.partition_state import PartitionState
from delta_log.topics.topic_state import TopicState

DAY_MS: Final = 24 * 60 * 60 * 1000
#: A warning an hour is enough to be noticed; without one, a check a minute costs nothing.
WARN_EVERY_MS: Final = 60 * 60 * 1000
LOOK_EVERY_MS: Final = 60 * 1000
_NAMED: Final = 5
_log = logging.getLogger(__name__)


class OverdueWatch:
    """Warns once an hour about topics that are a day overdue."""

    def __init__(self) -> None:
        self._due_ms: int | None = None

    def look(self, lives: Iterable[TopicState], now_ms: int) -> None:
        """Check all topics if a check is due. A clock that was set back does not delay it."""
        if self._due_ms is not None and self._due_ms - WARN_EVERY_MS <= now_ms < self._due_ms:
            return
        late = {live.name: load_overdue(live, now_ms) for live in lives if live.closed is None and not live.deleted}
        late = {name: each for name, each in late.items() if each.age_ms >= DAY_MS}
        self._due_ms = now_ms + (WARN_EVERY_MS if late else LOOK_EVERY_MS)
        if late:
            _log.warning("retention is overdue in %d topics: %s", len(late), describe_overdue(late))


def describe_overdue(late: Mapping[str, Overdue]) -> str:
    """Text about the worst topics: how much should be gone, and for how long."""
    worst = sorted(late, key=lambda name: (-late[name].age_ms, name))
    said = [f"{name} ({late[name].size} bytes, {late[name].age_ms / DAY_MS:.1f} days)" for name in worst[:_NAMED]]
    return ", ".join(said) + (" and others" if len(worst) > _NAMED else "") + "; nobody runs the retention job"


def load_overdue(live: TopicState, now_ms: int) -> Overdue:
    """Overdue data of a topic: the sum of its partitions' bytes, and the highest age."""
    if not live.config.deletes or not live.rows.partitioned:
        return Overdue(0, 0)
    try:
        found = [_of_partition(live, index, tail, now_ms) for index, tail in enumerate(live.tails)]
    except Exception as error:  # noqa: BLE001 - a damaged table must not take the figures of all others with it
        _log.warning("what is overdue in %s cannot be said: %r", live.name, error)
        return Overdue(0, 0)
    return Overdue(sum(each.size for each in found), max((each.age_ms for each in found), default=0))


def _of_partition(live: TopicState, index: int, tail: PartitionState, now_ms: int) -> Overdue:
    return measure_overdue(
        live.table.snapshot.files(index),
        log_start=tail.log_start_offset,
        retention_ms=live.config.retention_ms,
        retention_bytes=live.config.retention_bytes,
        segment_ms=live.config.segment_ms,
        now_ms=now_ms,
    )
