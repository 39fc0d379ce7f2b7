"""What a thousand topics cost that nobody writes to."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.driving import time_each
from benchmarks.processes import Worker, resident_mb, run_fresh
from benchmarks.records import make_records
from benchmarks.rows import Row, Target, beside, judge, over_turns, percentile
from benchmarks.sizes import Size
from benchmarks.topics import PARTITIONS
from delta_log.log import Log

_BLOCKS_A_TURN = 4
_BUSY = "busy"
START = Target("value", "<=", 5.0)
MEMORY = Target("value", "<=", 500.0)
UNCHANGED = Target("ratio", "<=", 1.2)


def run(place: Path, size: Size) -> Iterator[Row]:
    """One root has idle topics of 4 partitions and a busy topic, the other the busy topic alone; a process for each.

    `idle.create`: milliseconds to create a topic. `idle.start`: seconds of `Log.open`. `idle.list`: seconds of
    `topics()`, which opens every table. `idle.touch`: seconds to append one record to each topic. `idle.memory`: RSS
    of the process as it is when it has opened the root, listed the topics, touched them. `idle.append`: one-record
    appends by one caller to the busy topic, beside those in the other root, in turn, the other process stopped
    meanwhile; first with idle topics that nobody has asked for, then with all of them touched and in their tables.
    """
    crowded, lone = place / "crowded", place / "lone"
    created = run_fresh(_create, crowded, lone, size.idle_topics)
    count = {"topics": size.idle_topics}
    p50, p99 = percentile(created, 0.5), percentile(created, 0.99)
    yield Row(name="idle.create", params=count, value=median(created), unit="ms", p50=p50, p99=p99)
    with_idle, without = Worker(_serve, crowded), Worker(_serve, lone)
    try:
        yield from _start(with_idle, count)
        yield _append(with_idle, without, size, {**count, "touched": False})
        yield from _touch(with_idle, count)
        yield _append(with_idle, without, size, {**count, "touched": True})
    finally:
        with_idle.close()
        without.close()


def _start(worker: Worker, count: dict[str, int]) -> Iterator[Row]:
    seconds, memory = worker.ask("start")
    yield judge(Row(name="idle.start", params={**count}, value=seconds, unit="s"), START)
    yield judge(Row(name="idle.memory", params={**count, "after": "start"}, value=memory, unit="MB"), MEMORY)


def _touch(worker: Worker, count: dict[str, int]) -> Iterator[Row]:
    for what in ("list", "touch"):
        seconds, memory = worker.ask(what)
        yield Row(name=f"idle.{what}", params={**count}, value=seconds, unit="s")
        yield judge(Row(name="idle.memory", params={**count, "after": what}, value=memory, unit="MB"), MEMORY)


def _append(with_idle: Worker, without: Worker, size: Size, params: dict[str, Any]) -> Row:
    measured: list[list[float]] = []
    bases: list[list[float]] = []
    for worker in (with_idle, without):
        worker.ask("append", size.singles)
    for _ in range(size.turns * _BLOCKS_A_TURN):
        with without.paused():
            measured.append(with_idle.ask("append", size.singles))
        with with_idle.paused():
            bases.append(without.ask("append", size.singles))
    p50s = [percentile(block, 0.5) for block in measured]
    row = over_turns(p50s, "ms", name="idle.append", params=params)
    row.p50, row.p99 = row.value, median(percentile(block, 0.99) for block in measured)
    base = [percentile(block, 0.5) for block in bases]
    return judge(beside(row, "without idle topics", p50s, base), UNCHANGED)


def _create(crowded: Path, lone: Path, count: int) -> list[float]:
    with Log.open(lone) as log:
        log.create_topic(_BUSY, PARTITIONS)
    with Log.open(crowded) as log:
        log.create_topic(_BUSY, PARTITIONS)
        names = [f"idle-{number:05d}" for number in range(count)]
        return [s * 1000 for s in time_each(lambda name: log.create_topic(name, PARTITIONS), names)]


def _serve(connection: Connection, root: Path) -> None:
    """In a process of its own: opens the root with its first answer, and does what it is asked until nobody asks."""
    logging.disable(logging.WARNING)
    records = make_records(1_000)
    began = perf_counter()
    with Log.open(root) as log:
        opened = perf_counter() - began
        while True:
            match connection.recv():
                case ("start",):
                    connection.send((opened, resident_mb()))
                case ("list",):
                    began = perf_counter()
                    log.topics()
                    connection.send((perf_counter() - began, resident_mb()))
                case ("touch",):
                    began = perf_counter()
                    for place, name in enumerate(log.topics()):
                        log.append(name, [records[place % len(records)]])
                    seconds = perf_counter() - began
                    log.flush()
                    connection.send((seconds, resident_mb()))
                case ("append", count):
                    block = [[records[place % len(records)]] for place in range(count)]
                    taken = time_each(lambda request: log.append(_BUSY, request), block)
                    connection.send([seconds * 1000 for seconds in taken])
                case unknown:
                    raise ValueError(unknown)
