"""How long a server answers nobody while a group decides about very many partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.driving import run_loop
from benchmarks.group_members import Member
from benchmarks.http_conversation import Conversation
from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.rows import Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size

_IN_A_TOPIC: Final = 10_000
_HEALTH: Final = b"GET /healthz HTTP/1.1\r\nHost: lakelog\r\n\r\n"
_IDLE_S: Final = 1.0
_TIMEOUT_S: Final = 120
STALL: Final = Target("value", "<=", 10.0)
Step = Callable[[], Awaitable[object]]


def run(place: Path, size: Size) -> Iterator[Row]:
    """A group of two that read all topics by a pattern; `partitions` are those of all of them.

    `group-large`: the longest that `/healthz`, asked all the time over a connection of its own, had to wait for its
    answer, while a member subscribed, polled, shared with a second one, and that left. The baseline is the longest of
    a second in which nothing else was asked. The client runs on the same processors, so both have pauses of its own.
    """
    with ServerProcess(lakelog_command(place / "root"), place / "server.log") as server:
        with Asker(server.url) as asker:
            for number in range(-(-size.large_partitions // _IN_A_TOPIC)):
                asker.create_topic(f"large-{number}", min(_IN_A_TOPIC, size.large_partitions))
        taken: dict[str, list[float]] = {}
        idle: list[float] = []
        for turn in range(size.turns):
            run_loop(lambda turn=turn: asyncio.wait_for(_turn(server.url, f"group-{turn}", taken, idle), _TIMEOUT_S))
        for what, stalls in taken.items():
            params = {"what": what, "partitions": size.large_partitions}
            row = over_turns(stalls, "ms", name="group-large", params=params)
            yield judge(beside(row, "nothing else is asked", stalls, idle), STALL)


async def _turn(url: str, group: str, taken: dict[str, list[float]], idle: list[float]) -> None:
    async with Conversation(url) as probe, Member(url, group, "one") as one, Member(url, group, "two") as two:
        idle.append(await _stall(probe, lambda: asyncio.sleep(_IDLE_S)))
        steps: dict[str, Step] = {
            "subscribe": one.read_all,
            "first poll": lambda: one.poll(0),
            "second member": two.read_all,
            "poll": lambda: one.poll(0),
            "leave": two.leave,
        }
        for what, step in steps.items():
            taken.setdefault(what, []).append(await _stall(probe, step))
        await one.leave()


async def _stall(probe: Conversation, step: Step) -> float:
    """The longest answer of `/healthz`, in milliseconds, while a step lasts."""
    longest, over = 0.0, asyncio.Event()

    async def ask() -> None:
        nonlocal longest
        while not over.is_set():
            began = perf_counter()
            await probe.answer(_HEALTH)
            longest = max(longest, perf_counter() - began)
            await asyncio.sleep(0)

    asking = asyncio.create_task(ask())
    try:
        await step()
    finally:
        over.set()
        with suppress(asyncio.CancelledError):
            await asking
    return longest * 1000
