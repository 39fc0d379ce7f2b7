"""Large decisions, made in a thread, as they would block the loop, which goes on with all other groups.

Until one ends, its groups are busy: nothing else is decided or noted for them, so nothing builds on unfinished work.
As one thread at a time runs Python, the GIL switch interval is a tenth meanwhile. It knows threads and names of
groups; it must not know what is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from delta_log.model.errors import Closed
from delta_log.runtime.gil import short_turns

T = TypeVar("T")
_THREADS: Final = 2


@dataclass(slots=True)
class Busy:
    """A busy group. `behind`: calls to make when it ends, before anything else is decided for the group."""

    over: asyncio.Future[None]
    behind: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])


class Aside:
    """Runs large decisions of one loop. `freed` is called whenever one has ended."""

    def __init__(self, freed: Callable[[], None]) -> None:
        self._freed = freed
        self._busy: dict[str, Busy] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lakelog-large-groups")

    @property
    def idle(self) -> bool:
        return not self._busy

    def is_busy(self, group: str) -> bool:
        return group in self._busy

    def hindrance(self, groups: Iterable[str]) -> asyncio.Future[None] | None:
        """Return a future that ends with the work of one of these groups; None if all are free."""
        if not self._busy:  # nearly always
            return None
        return next((self._busy[each].over for each in groups if each in self._busy), None)

    def when_free(self, group: str, act: Callable[[], object]) -> None:
        """Call `act` now, or when the work of the group has ended."""
        busy = self._busy.get(group)
        if busy is None:
            act()
        else:
            busy.behind.append(act)

    def start(self, groups: Iterable[str], work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start work for free groups. It runs to its end even if its caller stops waiting."""
        loop = asyncio.get_running_loop()
        names = list(groups)
        for name in names:
            self._busy[name] = Busy(loop.create_future())
        task = loop.create_task(work)
        task.add_done_callback(lambda _: self._end(task, names))
        return task

    async def run(self, act: Callable[[], T]) -> T:
        """Run a part of such work in a thread."""
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, _in_short_turns, act)
        except RuntimeError:
            raise Closed from None
        return await running

    def forget(self, things: list[Any]) -> None:
        """Clear a list in a thread, as freeing its content takes time."""
        with suppress(RuntimeError):  # once it is closed
            self._threads.submit(things.clear)

    def over(self) -> list[asyncio.Future[None]]:
        """Return a future for each busy group, done when its work ends."""
        return [busy.over for busy in self._busy.values()]

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    def _end(self, task: asyncio.Task[Any], names: list[str]) -> None:
        if not task.cancelled():
            task.exception()  # marks it as retrieved: there may be no waiter left
        for name in names:
            busy = self._busy.pop(name)
            for act in busy.behind:
                act()
            busy.over.set_result(None)
        self._freed()


def _in_short_turns(act: Callable[[], T]) -> T:
    with short_turns():
        return act()
