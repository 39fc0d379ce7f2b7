"""One timer for all groups: it sleeps until the first deadline there is, and has what is due decided.

Deadlines mostly move away, as members are heard of; that costs a look when the old one comes. Only a group in which
something changed is looked at again, a little later, so that a busy group is looked at a few times a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from consumer_groups.decisions.expiry import next_deadline
from consumer_groups.state.state import Groups

_log = logging.getLogger("lakelog")

#: How late a deadline may be seen.
GRAIN_S: Final = 0.05
#: When to try again what could not be stored.
AGAIN_S: Final = 1.0
#: What has no deadline is looked after so often.
LONGEST_S: Final = 600.0
#: Behind its time by so much, this process was held up: nobody could be heard.
HELD_UP_S: Final = 1.0


class Deadlines:
    """`tick` is run when something may be due, and told if we were held up; it asks for `due` and carries it out.

    It answers whether it could. A group that is busy is looked at later.
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
        """After loading: everything is new."""
        self._touched.update(self._groups.by_name)
        self._wake_in(GRAIN_S)

    def touch(self, group: str) -> None:
        """Something changed that may have brought a deadline nearer."""
        self._touched.add(group)
        self._wake_in(GRAIN_S)

    def again(self) -> None:
        """Something could not be done now."""
        self._wake_in(AGAIN_S)

    def due(self) -> list[str]:
        """The groups of which something is due now; they are looked at again afterwards."""
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
        except Exception:  # noqa: BLE001 - whatever it is, the timer goes on
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
