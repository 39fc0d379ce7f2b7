"""What the routes share: the log, the settings, and the bounds on what is in memory. Made once, passed to all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import asyncio

from delta_log import Log
from ingest_api.bodies import Bodies
from ingest_api.read_room import ReadRoom
from ingest_api.settings import ServerSettings
from ingest_api.watch import Watch

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tier:
    """The parts of a running HTTP tier."""

    log: Log
    settings: ServerSettings
    bodies: Bodies
    read_room: ReadRoom
    watch: Watch
    threads: Executor

    async def in_thread(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Something that may wait for the disk."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, lambda: act(*args, **kwargs))
