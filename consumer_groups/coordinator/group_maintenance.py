"""Maintenance of all groups: expiry, retention, topics that came, went or grew.

It knows when something is due and triggers the decision; what cannot be done now is retried. It must not know the
requests of members.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection
from concurrent.futures import Executor
from typing import Any, Final

from consumer_groups.coordinator.dead_letter_writer import DeadLetterWriter
from consumer_groups.coordinator.durable_state import DurableGroups
from consumer_groups.coordinator.poll_waits import Polls
from consumer_groups.coordinator.timers import Deadlines
from consumer_groups.coordinator.topic_watch import LogOffsets, load_cluster, topics_in
from consumer_groups.decisions.decision_weight import is_large
from consumer_groups.decisions.expiry import decide_expiry
from consumer_groups.decisions.idle_groups import decide_retention, decide_topics_changed
from consumer_groups.model.cluster import Cluster
from consumer_groups.state.decision import Decision
from consumer_groups.state.state import Group
from delta_log import LakelogError, Log

_log = logging.getLogger("lakelog")
_RETENTION_EVERY_MS: Final = 600_000
#: A wall clock that drifts this far from the monotonic clock was set.
_CLOCK_SET_MS: Final = 1000
#: Interval of retries for topics that could not be opened.
_LOOK_AGAIN_MS: Final = 10_000


class GroupMaintenance:
    """Maintenance of a coordinator's groups. `cluster`: the topics as last listed."""

    def __init__(
        self,
        log: Log,
        durable: DurableGroups,
        offsets: LogOffsets,
        clock_ms: Callable[[], int],
        threads: Executor,
        *,
        custom_assignors: Collection[str],
        retention_ms: int,
    ) -> None:
        self._log = log
        self._durable = durable
        self._offsets = offsets
        self._clock_ms = clock_ms
        self._threads = threads
        self._custom = custom_assignors
        self._retention_ms = retention_ms
        self.cluster = Cluster(topics_in(durable.groups.records()).values(), custom_assignors)
        self.letters = DeadLetterWriter(log, durable, self, offsets, clock_ms, threads)
        give_up = self.letters.give_up_spoiled
        self.polls = Polls(durable, log, offsets, lambda: self.cluster, clock_ms, threads, give_up)
        self.deadlines = Deadlines(durable.groups, durable.is_busy, clock_ms, self.tick)
        #: True while some group has not adapted to the current topics.
        self.stale = False
        self._refreshing = asyncio.Lock()
        self._look_due_ms = self._retention_due_ms = 0
        self._ahead_ms = clock_ms() - time.monotonic() * 1000

    async def topics_changed(self) -> None:
        async with self._refreshing:  # an older list is never applied after a newer one
            closed = self._offsets.closed
            try:
                self.cluster, self._offsets.closed = await asyncio.get_running_loop().run_in_executor(
                    self._threads, load_cluster, self._log, self.cluster.topics, self._custom
                )
            except (LakelogError, RuntimeError) as error:  # RuntimeError: the threads are shut down
                _log.warning("the topics could not be listed for the groups: %s", error)
                self.stale = True
            else:
                self.stale = not await self._do_all(
                    list(self._durable.groups.by_name),
                    lambda known: decide_topics_changed(known, self.cluster, self._clock_ms()),
                )
            if closed != self._offsets.closed:
                self.polls.wake_all()
        self._look_due_ms = self._clock_ms() + _LOOK_AGAIN_MS
        if self.stale or self._offsets.closed:
            self.deadlines.again()

    async def run_retention(self) -> None:
        """Expire offsets and groups unused for the retention time."""
        await self._do_all(
            list(self._durable.groups.by_name),
            lambda known: decide_retention(known, self.cluster, self._clock_ms(), self._retention_ms),
        )

    async def tick(self, held_up: bool = False) -> bool:  # noqa: FBT001, FBT002 - the timer's
        """Do what is due; called by the timer. Members get fresh sessions if the process was `held_up`.

        While the disk is stuck, no member is answered, so none can be expected to send requests, and nothing expires.
        """
        if self._durable.stuck:
            return False
        if self._clock_was_set() or self._durable.was_stuck or held_up:
            self._durable.was_stuck = False
            self._durable.refresh()
            self.deadlines.begin()
        if self.stale or (self._offsets.closed and self._clock_ms() >= self._look_due_ms):
            await self.topics_changed()
        if not self.stale and self._clock_ms() >= self._retention_due_ms:
            self._retention_due_ms = self._clock_ms() + _RETENTION_EVERY_MS
            await self.run_retention()
        for group, member_id in self.polls.overdue():
            self._durable.record_liveness(group, member_id)
        done = await self._do_all(self.deadlines.due(), self._decide_expiry)
        return done and not self.stale and not self._offsets.closed

    def _is_large(self, known: Group) -> bool:
        return is_large(known, self.cluster)

    def _clock_was_set(self) -> bool:
        """Return whether the wall clock was set: such a jump must not expire sessions."""
        before, self._ahead_ms = self._ahead_ms, self._clock_ms() - time.monotonic() * 1000
        return abs(self._ahead_ms - before) > _CLOCK_SET_MS

    def _decide_expiry(self, known: Group) -> Decision[tuple[str, ...]]:
        if self._durable.stuck or self._durable.was_stuck:  # meanwhile: the next tick gives them fresh sessions
            return Decision(known.name, (), known.generation)
        return decide_expiry(known, self.cluster, self._clock_ms())

    async def _do_all(self, groups: Collection[str], decide: Callable[[Group], Decision[Any]]) -> bool:
        """Decide for each group separately; what cannot be stored now is decided again when it is due again."""
        outcomes = await asyncio.gather(
            *(self._durable.do(each, decide, large=self._is_large) for each in groups), return_exceptions=True
        )
        failed = [each for each in outcomes if isinstance(each, BaseException)]
        for error in failed:
            if not isinstance(error, LakelogError):
                raise error
            _log.warning("a group could not be brought up to date: %s", error)
        return not failed
