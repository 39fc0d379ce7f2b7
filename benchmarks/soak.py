"""A table after very many commits, beside one that has just begun."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

from benchmarks.processes import Worker, resident_mb
from benchmarks.records import make_records
from benchmarks.rows import Param, Row, Target, beside, judge, percentile
from benchmarks.sizes import Size
from benchmarks.topics import PARTITIONS
from benchmarks.watching import live_of
from delta_log.log import Log
from delta_log.maintenance.compaction.file_bins import MOST_UNFOLDED
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import Record
from delta_log.startup.open import Settings

#: What is compared: as many commits at the end as at the beginning.
_WINDOW: Final = 1_000
_BETWEEN_S: Final = 0.002
_LOOKS: Final = 50
#: A record is as many bytes as bring a commit forward: each commit follows the one before at once.
_CONFIG: Final = {"lakelog.commit.interval.ms": 100, "lakelog.commit.bytes": 1024}
_SETTINGS: Final = Settings(files_per_second=1e9, tail_bytes=8_000_000)
_HISTORY: Final = TopicConfig().history_commits
#: Twice what waits for a fold at most, and the files of each size that a window of a partition ends with: nine of five.
FILES = Target("value", "<=", 2 * MOST_UNFOLDED + PARTITIONS * 9 * 5)
TAIL = Target("value", "<=", 100)
#: The history, a tenth of it between two clean-ups, and what is kept down to a checkpoint.
ENTRIES = Target("value", "<=", 1.25)
OPENED = Target("value", "<=", 250)
FLAT = Target("ratio", "<=", 1.1)
APPEND = Target("ratio", "<=", 1.5)


@dataclass
class Seen:
    """What a worker saw while it soaked: `looks` are memory in MB, open handles, and entries of the table's log."""

    took_ms: list[float] = field(default_factory=list[float])
    most_files: int = 0
    longest_tail: int = 0
    looks: list[tuple[float, int, int]] = field(default_factory=list[tuple[float, int, int]])
    seconds: float = 0.0


def run(place: Path, size: Size) -> Iterator[Row]:
    """One topic of 4 partitions that is committed to without a pause; a caller appends a record every 2 ms.

    `soak.append`: p99 of appends during a thousand commits behind all the others, beside that of the first thousand
    commits of a table of its own, in turn with it and in another process that stands still meanwhile; `own first` is
    what the soaked one had at its own first thousand. `soak.files`: the most live files. `soak.tail`: the most commits
    behind a checkpoint. `soak.log`: the most entries of `_delta_log`, in histories (`lakelog.history.commits`).
    `soak.open`: milliseconds to open a fresh `DeltaTable` at the end. `soak.memory` and `soak.handles`: at the end,
    beside what they were when a fifth of the commits was made, which is more than the history from 60,000 on.
    """
    window = min(_WINDOW, size.soaked // 4)
    soaked = Worker(_serve, place / "soaked")
    try:
        own: Seen = soaked.ask("soak", window)
        seen: Seen = soaked.ask("soak", size.soaked - window)
        late, early = _by_turns(soaked, place, size, window)
        params: dict[str, Param] = {"commits": size.soaked, "window": window}
        row = Row(name="soak.append", params=params, value=median(late), unit="ms", p99=median(late))
        row.also = {"ms own first": percentile(own.took_ms, 0.99), "commits/s": (size.soaked - window) / seen.seconds}
        yield judge(beside(row, "first commits, ms", late, early), APPEND)
        yield from _bounds(params, seen)
        opened = soaked.ask("open", size.turns)
        yield judge(Row(name="soak.open", params=params, value=median(opened), unit="ms"), OPENED)
    finally:
        soaked.close()


def _by_turns(soaked: Worker, place: Path, size: Size, window: int) -> tuple[list[float], list[float]]:
    late: list[float] = []
    early: list[float] = []
    for turn in range(size.turns):
        fresh = Worker(_serve, place / f"fresh-{turn}")
        try:
            fresh.ask("soak", 0)
            with soaked.paused():
                early.append(percentile(fresh.ask("soak", window).took_ms, 0.99))
        finally:
            fresh.close()
        late.append(percentile(soaked.ask("soak", window).took_ms, 0.99))
    return late, early


def _bounds(params: dict[str, Param], seen: Seen) -> Iterator[Row]:
    early, last = seen.looks[len(seen.looks) // 5], seen.looks[-1]
    entries = max(entries for _, _, entries in seen.looks)
    yield judge(Row(name="soak.files", params=params, value=seen.most_files, unit="files"), FILES)
    yield judge(Row(name="soak.tail", params=params, value=seen.longest_tail, unit="commits"), TAIL)
    row = Row(name="soak.log", params=params, value=entries / _HISTORY, unit="histories", also={"entries": entries})
    yield judge(row, ENTRIES)
    for name, unit, before, after in (
        ("soak.memory", "MB", early[0], last[0]),
        ("soak.handles", "handles", float(early[1]), float(last[1])),
    ):
        row = Row(name=name, params=params, value=after, unit=unit)
        yield judge(beside(row, "at a fifth", [after], [before]), FLAT)


def _serve(connection: Connection, root: Path) -> None:
    """In a process of its own: makes so many commits more with each question."""
    logging.disable(logging.WARNING)
    records = make_records(1_000)
    requests = [[Record((record.value or b"") * 11, record.key)] for record in records]
    with Log.open(root, settings=_SETTINGS) as log:
        log.create_topic("orders", PARTITIONS, config=_CONFIG)
        while True:
            match connection.recv():
                case ("soak", commits):
                    connection.send(_soak(log, root, requests, commits))
                case ("open", times):
                    connection.send([_time_open(log) for _ in range(times)])
                case unknown:
                    raise ValueError(unknown)


def _soak(log: Log, root: Path, requests: list[list[Record]], commits: int) -> Seen:
    table = live_of(log, "orders").table
    begin = looked = table.snapshot.version
    until = begin + commits
    seen, began, sent = Seen(), perf_counter(), 0
    while (version := table.snapshot.version) < until:
        asked = perf_counter()
        log.append("orders", requests[sent % len(requests)])
        seen.took_ms.append((perf_counter() - asked) * 1000)
        sent += 1
        seen.most_files = max(seen.most_files, table.snapshot.file_count)
        seen.longest_tail = max(seen.longest_tail, version - table.checkpoint_version)
        if version - looked >= commits / _LOOKS:
            looked = version
            seen.looks.append(_look(root))
        time.sleep(_BETWEEN_S)
    seen.looks.append(_look(root))
    seen.seconds = perf_counter() - began
    return seen


def _look(root: Path) -> tuple[float, int, int]:
    return resident_mb(), _count(Path("/proc/self/fd")), _count(root / "topics" / "orders" / "_delta_log")


def _count(directory: Path) -> int:
    return sum(1 for _ in directory.iterdir()) if directory.is_dir() else 0


def _time_open(log: Log) -> float:
    from deltalake import DeltaTable  # noqa: PLC0415 - what it takes in memory must not count before

    began = perf_counter()
    DeltaTable(log.table_location("orders"))
    return (perf_counter() - began) * 1000
