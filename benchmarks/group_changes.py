"""What it takes until partitions are where they belong: members that join, leave, and are gone without a word."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks.driving import run_loop
from benchmarks.group_members import Member
from benchmarks.http_conversation import Conversation
from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.rows import Row, Target, judge, over_turns, percentile
from benchmarks.sizes import Size

_TOPIC: Final = "orders"
_POLL_MS: Final = 2_000
_SESSION_MS: Final = 1_000
_TIMEOUT_S: Final = 60
_LOOK_EVERY_S: Final = 0.002
_EMPTY: Final = b"[]\n"
JOIN: Final = Target("p50", "<=", 50.0)
CRASH: Final = Target("value", "<=", 200.0)
REBALANCE: Final = Target("value", "<=", 300.0)


def run(place: Path, size: Size) -> Iterator[Row]:
    """Members that poll and commit in a loop, each over a connection of its own.

    `group-join`: from asking to join a new group, over subscribing, to the first record. `group-crash`: a member that
    shares a topic with one other is heard of no more; how much longer than its session (1 s) it takes until the other
    is given a record of what it had. `group-rebalance`: a large group that shares out its partitions; from asking until
    every partition is with whom it should be, when a member joins whose name changes almost everybody's range, and when
    it leaves; `sticky` is the assignor that moves only what it must.
    """
    with ServerProcess(lakelog_command(place / "root"), place / "server.log") as server:
        _fill(server.url, size.shared_partitions)
        yield _joins(server.url, size)
        yield _crashes(server.url, size)
        for assignor in ("range", "sticky"):
            yield from _rebalances(server.url, size, assignor)


def _fill(url: str, partitions: int) -> None:
    with Asker(url) as asker:
        for topic, count in ((_TOPIC, partitions), ("few", 2)):
            asker.create_topic(topic, count)
            body = json.dumps({"records": [{"value": "eA==", "partition": place} for place in range(count)]}).encode()
            status, _ = asker.ask("POST", f"/topics/{topic}", body, {"Content-Type": "application/json"})
            if status != 200:  # noqa: PLR2004
                raise RuntimeError(f"the server answered {status}")


def _within(story: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return run_loop(lambda: asyncio.wait_for(story(), _TIMEOUT_S))


def _joins(url: str, size: Size) -> Row:
    taken = [_within(lambda number=number: _join_once(url, f"joining-{number}")) for number in range(size.tries)]
    row = over_turns(taken, "ms", name="group-join", params={"tries": size.tries})
    row.p50, row.p99 = percentile(taken, 0.5), percentile(taken, 0.99)
    return judge(row, JOIN)


async def _join_once(url: str, group: str) -> float:
    async with Member(url, group, "one") as member:
        began = perf_counter()
        await member.join("few", auto_offset_reset="earliest")
        if await member.poll(_POLL_MS) == _EMPTY:
            raise RuntimeError("a member that was alone was given nothing")
        passed = perf_counter() - began
        await member.leave()
    return passed * 1000


def _crashes(url: str, size: Size) -> Row:
    late = [_within(lambda turn=turn: _crash_once(url, f"crashing-{turn}")) for turn in range(size.turns)]
    return judge(over_turns(late, "ms", name="group-crash", params={"session ms": _SESSION_MS}), CRASH)


async def _crash_once(url: str, group: str) -> float:
    """How many ms behind the end of the session, which begins with the last that it asked, not with the answer."""
    async with Member(url, group, "lives") as lives, Member(url, group, "dies") as dies:
        for member in (lives, dies):
            await member.join("few", auto_offset_reset="earliest", session_timeout_ms=_SESSION_MS)
        while not (await lives.owned() and await dies.owned()):
            for member in (lives, dies):
                await member.poll(0)
                await member.commit()
        dead = perf_counter()
        await dies.poll(0)
        seen = 0
        while len(await lives.owned()) < 2:  # noqa: PLR2004 - of its topic
            seen += len(json.loads(await lives.poll(_POLL_MS)))
            await lives.commit()
        return (perf_counter() - dead) * 1000 - _SESSION_MS


def _rebalances(url: str, size: Size, assignor: str) -> Iterator[Row]:
    group = f"large-{assignor}"
    joins, leaves = _within(lambda: _rebalance(url, group, size, assignor))
    for what, taken in (("join", joins), ("leave", leaves)):
        params = {"what": what, "by": assignor, "members": size.members, "partitions": size.shared_partitions}
        yield judge(over_turns(taken, "ms", name="group-rebalance", params=params), REBALANCE)


async def _rebalance(url: str, group: str, size: Size, assignor: str) -> tuple[list[float], list[float]]:
    joins: list[float] = []
    leaves: list[float] = []
    options = {"partition.assignment.strategy": assignor, "auto.offset.reset": "earliest"}
    names = [f"member-{number:03}" for number in range(1, size.members + 1)]
    async with _polling(url, group, names, options), Conversation(url) as watching:
        await _settled(watching, group, size.members)
        for _ in range(size.turns):
            began = perf_counter()
            async with _polling(url, group, ["member-000"], options):
                await _settled(watching, group, size.members + 1)
                joins.append((perf_counter() - began) * 1000)
                began = perf_counter()
            await _settled(watching, group, size.members)
            leaves.append((perf_counter() - began) * 1000)
    return joins, leaves


@asynccontextmanager
async def _polling(url: str, group: str, names: list[str], options: dict[str, str]) -> AsyncIterator[None]:
    """Members that poll and commit until the end, when they leave."""
    joined = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(_poll_on(Member(url, group, name), options, joined)) for name in names]
    for _ in names:
        await joined.acquire()
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*(_leave(url, group, name) for name in names))
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def _poll_on(member: Member, options: dict[str, str], joined: asyncio.Semaphore) -> None:
    async with member:
        await member.join(_TOPIC, **options)
        joined.release()
        while True:
            if await member.poll(_POLL_MS) != _EMPTY:
                await member.commit()


async def _leave(url: str, group: str, name: str) -> None:
    async with Member(url, group, name) as again:
        await again.leave()


async def _settled(watching: Conversation, group: str, members: int) -> None:
    """Until all partitions are where they belong, with so many members."""
    asked = f"GET /groups/{group} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    while True:
        _, answer = await watching.answer(asked)
        found = json.loads(answer)
        if found["state"] == "Stable" and len(found["members"]) == members:
            return
        await asyncio.sleep(_LOOK_EVERY_S)
