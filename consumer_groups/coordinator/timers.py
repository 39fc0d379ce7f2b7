"""Timer of all groups: sleeps until the first deadline, then triggers what is due.

Most deadlines are extended by requests of members; that costs one check when the old deadline comes. Only a group in
which something changed is checked again, after a short delay, so that a busy group is checked a few times a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from consumer_groups.decisions.expiry import next_deadline
from consumer_groups.state.state import Groups

_log = logging.getLogger("lakelog")

#: Maximum lateness of a deadline in normal operation.
GRAIN_S: Final = 0.05
#: Pause before a retry of what could not be stored.
AGAIN_S: Final = 1.0
#: Interval of checks without any deadline.
LONGEST_S: Final = 600.0
#: A timer this late shows that the process was held up, and could not receive requests.
HELD_UP_S: Final = 1.0


class Deadlines:
    """Timer that calls `tick(held_up)` when something may be due; `tick` calls `due` and carries it out.

    It returns whether it could. A busy group is checked later.
    """

    def __init__(
        self,
        groups: Groups,
        is_busy: Callable[[str], bool],
        clock_ms: Callable[[], int],
        tick: Callable[[bool], Awaitable[bool]],
    ) -> None:
        self._groups = groups
        self._is_busy = is_busy
        self._clock_ms = clock_ms
        self._tick = tick
        self._touched: set[str] = set()
        self._at_ms: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def begin(self) -> None:
        """Start after loading, with all groups to check."""
        self._touched.update(self._groups.by_name)
        self._wake_in(GRAIN_S)

    def touch(self, group: str) -> None:
        """Have a group checked, as a change may have brought a deadline nearer."""
        self._touched.add(group)
        self._wake_in(GRAIN_S)

    def again(self) -> None:
        """Schedule a retry of what could not be done now."""
        self._wake_in(AGAIN_S)

    def due(self) -> list[str]:
        """Groups with something due now; they are checked again afterwards."""
        touched = {name for name in self._touched if not self._is_busy(name)}
        self._touched -= touched
        for name in touched:
            at_ms = next_deadline(self._groups.get(name))
            if at_ms is None:
                self._at_ms.pop(name, None)
            else:
                self._at_ms[name] = at_ms
        now_ms = self._clock_ms()
        due = [name for name, at_ms in self._at_ms.items() if at_ms <= now_ms]
        self._touched.update(due)
        return due

    async def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _wake_in(self, seconds: float) -> None:
        if self._closed or (self._task is not None and not self._task.done()):
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= at:
                return
            self._timer.cancel()
        self._timer = loop.call_at(at, self._fire, at)

    def _fire(self, at: float) -> None:
        self._timer = None
        held_up = asyncio.get_running_loop().time() - at > HELD_UP_S
        self._task = asyncio.get_running_loop().create_task(self._run(held_up=held_up))

    async def _run(self, *, held_up: bool) -> None:
        try:
            done = await self._tick(held_up)
        except Exception:  # noqa: BLE001 - the timer goes on after any error
            _log.exception("what time brings to the groups could not be done; it is tried again")
            done = False
        self._task = None
        self._wake_in(self._pause_s(done=done))

    def _pause_s(self, *, done: bool) -> float:
        if not done:
            return AGAIN_S
        if self._touched:
            return GRAIN_S
        first_ms = min(self._at_ms.values(), default=None)
        return LONGEST_S if first_ms is None else min(LONGEST_S, max(GRAIN_S, (first_ms - self._clock_ms()) / 1000))
