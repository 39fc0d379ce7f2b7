"""What is done aside: in a thread, as it would keep the loop for long, while the loop goes on with all other groups.

Until it ends its groups are busy: nothing else is decided of them or noted, so nothing rests on what is half done. As
one thread at a time runs Python, the others are asked to let go of the interpreter ten times as often meanwhile. It
knows threads and names of groups; it must not know what is decided.
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
    """`behind` is what is done at the end, before anything else is decided of the group."""

    over: asyncio.Future[None]
    behind: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])


class Aside:
    """Of one loop. `freed` is called whenever work has ended."""

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
        """What ends when one of these is free that is not."""
        if not self._busy:  # nearly always
            return None
        return next((self._busy[each].over for each in groups if each in self._busy), None)

    def when_free(self, group: str, act: Callable[[], object]) -> None:
        """Now, or as soon as its work has ended."""
        busy = self._busy.get(group)
        if busy is None:
            act()
        else:
            busy.behind.append(act)

    def start(self, groups: Iterable[str], work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work for groups that are free. It goes on to its end, also where nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        names = list(groups)
        for name in names:
            self._busy[name] = Busy(loop.create_future())
        task = loop.create_task(work)
        task.add_done_callback(lambda _: self._end(task, names))
        return task

    async def run(self, act: Callable[[], T]) -> T:
        """In a thread: a part of such work."""
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, _in_short_turns, act)
        except RuntimeError:
            raise Closed from None
        return await running

    def forget(self, things: list[Any]) -> None:
        """Free what is in there, in a thread."""
        with suppress(RuntimeError):  # once it is closed
            self._threads.submit(things.clear)

    def over(self) -> list[asyncio.Future[None]]:
        """What ends with all that is under way."""
        return [busy.over for busy in self._busy.values()]

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    def _end(self, task: asyncio.Task[Any], names: list[str]) -> None:
        if not task.cancelled():
            task.exception()  # nobody may be waiting any more
        for name in names:
            busy = self._busy.pop(name)
            for act in busy.behind:
                act()
            busy.over.set_result(None)
        self._freed()


def _in_short_turns(act: Callable[[], T]) -> T:
    with short_turns():
        return act()
