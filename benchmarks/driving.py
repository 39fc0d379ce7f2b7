"""Callers that send requests as fast as they are answered, and how long each answer took."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

from benchmarks.rows import percentile

try:
    from uvloop import new_event_loop
except ImportError:  # it is no part of an install without the server
    from asyncio import new_event_loop

T = TypeVar("T")
#: Callers begin at different requests of the pool.
_STRIDE = 7


@dataclass(frozen=True, slots=True)
class Load:
    """What closed-loop callers achieved."""

    seconds: float
    latencies: list[float]

    def per_second(self, records: int) -> float:
        """With so many records a request."""
        return len(self.latencies) * records / self.seconds

    def ms(self, share: float) -> float:
        return percentile(self.latencies, share) * 1000


def time_each(call: Callable[[T], object], arguments: Sequence[T]) -> list[float]:
    """Seconds of each call, one after the other."""
    taken: list[float] = []
    for argument in arguments:
        began = perf_counter()
        call(argument)
        taken.append(perf_counter() - began)
    return taken


def drive(append: Callable[[T], object], requests: Sequence[T], *, callers: int, seconds: float) -> Load:
    """Threads, each of which sends its next request when the one before is answered; at least one each."""
    clock = _Clock(seconds)
    gate = threading.Barrier(callers, action=clock.start)

    def call(caller: int) -> list[float]:
        gate.wait()
        taken: list[float] = []
        place = caller * _STRIDE
        while not taken or perf_counter() < clock.deadline:
            began = perf_counter()
            append(requests[place % len(requests)])
            taken.append(perf_counter() - began)
            place += 1
        return taken

    with ThreadPoolExecutor(callers) as threads:
        each = [future.result() for future in [threads.submit(call, caller) for caller in range(callers)]]
    return Load(perf_counter() - clock.began, [taken for latencies in each for taken in latencies])


def drive_tasks(
    append: Callable[[T], Awaitable[object]], requests: Sequence[T], *, callers: int, seconds: float
) -> Load:
    """The same as tasks of one event loop, uvloop's where there is one, as in the server."""
    clock = _Clock(seconds)

    async def call(caller: int) -> list[float]:
        taken: list[float] = []
        place = caller * _STRIDE
        while not taken or perf_counter() < clock.deadline:
            began = perf_counter()
            await append(requests[place % len(requests)])
            taken.append(perf_counter() - began)
            place += 1
        return taken

    async def all_of_them() -> list[list[float]]:
        clock.start()
        return await asyncio.gather(*(call(caller) for caller in range(callers)))

    each = run_loop(all_of_them)
    return Load(perf_counter() - clock.began, [taken for latencies in each for taken in latencies])


def run_loop(main: Callable[[], Any]) -> Any:
    """Run a coroutine function on the server's kind of event loop."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main())


class _Clock:
    """Starts when everybody is there."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.began = self.deadline = 0.0

    def start(self) -> None:
        self.began = perf_counter()
        self.deadline = self.began + self._seconds
