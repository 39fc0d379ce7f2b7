"""The state that routes share: the log, the settings, and the bounds on memory. Made once, passed to all."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, ParamSpec, TypeVar

from consumer_groups.coordinator.coordinator import Coordinator
from delta_log import Log
from delta_log.model.errors import OutcomeUnknown
from ingest_api.config.settings import ServerSettings
from ingest_api.web.body_reader import Bodies
from ingest_api.web.counters import RequestCounters
from ingest_api.web.read_budget import ReadRoom
from ingest_api.web.shutdown import Closing
from ingest_api.web.wakeups import End, LoopNotifier

P = ParamSpec("P")
T = TypeVar("T")
#: Making an answer of more entries takes milliseconds.
_MANY: Final = 2000


@dataclass(frozen=True, slots=True)
class ServerContext:
    """The parts of a running HTTP tier. `closing` is set when a stop has begun, and ends waits."""

    log: Log
    groups: Coordinator
    settings: ServerSettings
    bodies: Bodies
    read_room: ReadRoom
    watch: RequestCounters
    threads: Executor
    closing: Closing = field(default_factory=Closing)
    bell: LoopNotifier = field(default_factory=LoopNotifier)

    async def in_thread(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a call that may wait for the disk. It goes on after the request timeout: its outcome is then unknown."""
        running = asyncio.get_running_loop().run_in_executor(self.threads, lambda: act(*args, **kwargs))
        return await self.in_time(running)

    async def show(self, entries: int, make: Callable[[], T]) -> T:
        """Make an answer of so many entries, in a thread if they are many."""
        return make() if entries < _MANY else await self.in_thread(make)

    async def change_topics(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Create, grow or delete topics. Groups are notified before it returns, or after a timeout once it is done."""
        return await self.in_time(asyncio.shield(self._change_topics(lambda: act(*args, **kwargs))))

    async def _change_topics(self, act: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, act)
        finally:
            await self.groups.topics_changed()

    async def in_time(self, running: Awaitable[T]) -> T:
        """Await a call that a sick disk may delay; raises OutcomeUnknown after the request timeout."""
        seconds = self.settings.request_timeout_ms / 1000
        try:
            return await asyncio.wait_for(running, seconds)
        except TimeoutError:
            raise OutcomeUnknown("the request", f"it took more than {seconds:g} s") from None

    @contextmanager
    def polling(self, gone: Coroutine[Any, Any, None]) -> Generator[tuple[End, ...]]:
        """Count a waiting reader; yields what else ends its wait: `gone`, its disconnect, or a stop of the server."""
        leaving = asyncio.ensure_future(gone)
        with self.watch.polling:
            try:
                yield (leaving, self.closing)
            finally:
                leaving.cancel()
