"""Commits of the members of one group, each synced before it is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.driving import run_loop
from benchmarks.group_members import V2, Member
from benchmarks.http_cases import GENERATORS, pick_generator
from benchmarks.http_load import HttpLoad, Requests
from benchmarks.http_servers import ECHO, Asker, ServerProcess, lakelog_command
from benchmarks.http_turns import ECHOED, refuse_refusals, row_of_loads, time_sync
from benchmarks.rows import Param, Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size

_TOPIC: Final = "orders"
_GROUP: Final = "billing"
_RECORDS: Final = 100
#: Commits of one member that differ.
_DIFFERING: Final = 20
_ALLOWED_MS: Final = 0.2
ALONE: Final = Target("ratio", "<=", 1.0)
MANY: Final = Target("ratio", ">=", 0.2)


def run(place: Path, size: Size) -> Iterator[Row]:
    """Members that commit one partition again and again, each over a connection of its own; `members` says how many.

    `group-commits`: commits a second, beside requests of the same length that a bare ASGI app answers;
    `group-commits.alone`: the p50 of a member that is alone, beside what it should not exceed.
    """
    counts = tuple(dict.fromkeys((1, size.members)))
    taken: dict[int, list[HttpLoad]] = {count: [] for count in counts}
    echoed: dict[int, list[HttpLoad]] = {count: [] for count in counts}
    syncs: list[float] = []
    drive = GENERATORS[by := pick_generator(size.seconds)]
    with (
        ServerProcess(ECHO, place / "echo.log") as echo,
        ServerProcess(lakelog_command(place / "root"), place / "server.log") as server,
    ):
        requests = {count: _prepare(server.url, count) for count in counts}
        for _ in range(size.turns):
            for count in counts:
                load = {"connections": count, "seconds": size.seconds}
                echoed[count].append(drive(f"{echo.url}/echo", _without_paths(requests[count]), **load))
                taken[count].append(drive(f"{server.url}/", requests[count], **load))
            syncs.append(time_sync(place / "growing", requests[1].body_bytes, size.singles))
    for count in counts:
        params: dict[str, Param] = {"by": by, "members": count}
        yield row_of_loads("http.echo", params, echoed[count], 1, "requests/s")
        row = row_of_loads("group-commits", params, taken[count], 1, "commits/s")
        rates = [load.per_second for load in taken[count]]
        row = beside(row, ECHOED, rates, [load.per_second for load in echoed[count]])
        yield refuse_refusals(judge(row, MANY) if count > 1 else row, taken[count])
    yield over_turns(syncs, "ms", name="http.sync", params={"bytes": requests[1].body_bytes})
    yield _alone(taken[1], echoed[1], syncs)


def _alone(taken: Sequence[HttpLoad], echoed: Sequence[HttpLoad], syncs: Sequence[float]) -> Row:
    p50s = [load.p50 for load in taken]
    bounds = [echo.p50 + 2 * sync + _ALLOWED_MS for echo, sync in zip(echoed, syncs, strict=True)]
    row = beside(over_turns(p50s, "ms", name="group-commits.alone"), "echo + 2 syncs + 0.2 ms", p50s, bounds)
    row.p50, row.p99 = row.value, median(load.p99 for load in taken)
    return judge(row, ALONE)


def _without_paths(requests: Requests) -> Requests:
    return Requests(requests.headers, requests.bodies, 1, 0)


def _prepare(url: str, members: int) -> Requests:
    """A group whose members own a partition each, and what they commit, in turn."""
    topic, group = f"{_TOPIC}-{members}", f"{_GROUP}-{members}"
    with Asker(url) as asker:
        asker.create_topic(topic, members)
        records = [{"value": "eA==", "partition": place} for place in range(members)] * _RECORDS
        status, answer = asker.ask(
            "POST",
            f"/topics/{topic}",
            json.dumps({"records": records}).encode(),
            {"Content-Type": "application/vnd.kafka.binary.v2+json"},
        )
        if status != 200:  # noqa: PLR2004
            raise RuntimeError(f"the server answered {status}: {answer[:500]!r}")
    owned: list[tuple[str, int]] = run_loop(lambda: _join_all(url, group, topic, members))
    commits = [
        (path, json.dumps({"offsets": [{"topic": topic, "partition": partition, "offset": offset}]}).encode())
        for offset in range(_DIFFERING)
        for path, partition in owned
    ]
    paths, bodies = zip(*commits, strict=True)
    return Requests({"Content-Type": V2}, bodies, 1, 0, paths=paths)


async def _join_all(url: str, group: str, topic: str, members: int) -> list[tuple[str, int]]:
    """Where each commits, and what it owns."""
    async with AsyncExitStack() as stack:
        everyone = [
            await stack.enter_async_context(Member(url, group, f"member-{number:03}")) for number in range(members)
        ]
        for member in everyone:
            await member.join(topic, session_timeout_ms=600_000, max_poll_interval_ms=600_000)
        while not all([await member.owned() for member in everyone]):
            await asyncio.gather(*(member.poll(0) for member in everyone))
            await asyncio.gather(*(member.commit() for member in everyone))
        owned = [await member.owned() for member in everyone]
    return [(f"{member.path}/offsets", its[0][1]) for member, its in zip(everyone, owned, strict=True)]
