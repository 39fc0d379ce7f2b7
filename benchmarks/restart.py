"""Starting on what a killed process left in the journal."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.driving import run_loop
from benchmarks.processes import die, run_fresh, run_until_killed
from benchmarks.records import make_records, to_requests
from benchmarks.rows import Row, Target, judge, over_turns
from benchmarks.sizes import Size
from benchmarks.topics import PARTITIONS
from benchmarks.watching import live_of, wait_tabled
from delta_log.append.group_commit import Limits
from delta_log.log import Log
from delta_log.model.types import Record
from delta_log.startup.open import Settings

_TASKS = 64
_UNBOUNDED = 1 << 60
#: Of the server, not of the topic: whoever opens the root next has the usual ones.
_NEVER_COMMIT = {"lakelog.commit.interval.ms": 3_600_000, "lakelog.commit.bytes": 2**31 - 1}
OPEN = Target("value", "<=", 2.0)


def run(place: Path, size: Size) -> Iterator[Row]:
    """A process fills the journal while its tables stay behind, and is killed; each turn opens a copy of that root.

    `restart.open`: seconds of `Log.open` in a fresh process, imports not counted, the journal in the page cache;
    `restart.tabled`: seconds from the call until every record is in the table. Once with requests of 1,000 records,
    once with requests of one.
    """
    for per_request, count in ((1_000, size.journaled), (1, size.journaled_singly)):
        root, copy = place / f"root-{per_request}", place / "copy"
        run_until_killed(_fill_journal, root, per_request, count)
        opened: list[float] = []
        tabled: list[float] = []
        for _ in range(size.turns):
            shutil.copytree(root, copy)
            for times, seconds in zip((opened, tabled), run_fresh(_time_start, copy, count), strict=True):
                times.append(seconds)
            shutil.rmtree(copy)
        shutil.rmtree(root)
        params = {"records": count, "per_request": per_request}
        yield judge(over_turns(opened, "s", name="restart.open", params=params), OPEN)
        yield over_turns(tabled, "s", name="restart.tabled", params=params)


def _fill_journal(root: Path, per_request: int, count: int) -> None:
    limits = Limits(topic_bytes=_UNBOUNDED, total_bytes=_UNBOUNDED)
    log = Log.open(root, settings=Settings(topic_defaults=_NEVER_COMMIT, limits=limits))
    log.create_topic("orders", PARTITIONS)
    requests = to_requests(make_records(min(count, 50_000)), per_request)
    # An idle topic commits at once: let that be over before what is to stay in the journal.
    log.when_tabled("orders", log.append("orders", requests[0][:1])).result()
    if per_request == 1:
        run_loop(lambda: _append_singly(log, requests, count))
    else:
        for place in range(count // per_request):
            log.append("orders", requests[place % len(requests)])
    die()


async def _append_singly(log: Log, requests: Sequence[Sequence[Record]], count: int) -> None:
    async def append(task: int) -> None:
        for place in range(task, count, _TASKS):
            await log.append_async("orders", requests[place % len(requests)])

    await asyncio.gather(*(append(task) for task in range(_TASKS)))


def _time_start(root: Path, count: int) -> tuple[float, float]:
    logging.disable(logging.WARNING)
    began = perf_counter()
    log = Log.open(root)
    opened = perf_counter() - began
    live = live_of(log, "orders")
    wait_tabled(live)
    tabled = perf_counter() - began
    found = sum(tail.high_watermark for tail in live.tails)
    log.close()
    if found != count + 1:
        raise RuntimeError(f"{count + 1} records were journaled, {found} were found")
    return opened, tabled
