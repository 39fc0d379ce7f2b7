"""A topic with a long history of records beside one with a hundredth of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from benchmarks.driving import time_each
from benchmarks.jobs_tables import HOUR_MS, PARTITIONS, TOPIC, commit_files, describe_file, make_topic, now_ms
from benchmarks.processes import Worker
from benchmarks.records import make_records, to_requests
from benchmarks.rows import Row, Target, beside, judge, percentile
from benchmarks.sizes import Size
from delta_log.log import Log

_TIMES: Final = 100
_BLOCKS_A_TURN: Final = 4
_RECORDS: Final = 1_000
#: As a compaction job leaves them: the server's own folds pass them by.
_FILE_BYTES: Final = 100_000_000
_EMPTY: Final = "_empty"
SAME = Target("ratio", "<=", 1.1)


def run(place: Path, size: Size) -> Iterator[Row]:
    """Two roots, one with 100 times as many files; a process for each, the other stands still meanwhile.

    `retained.append`: a record a request, one caller; `retained.requests`: the same by 1,000 records, whose commits
    follow each other by 100 ms; `retained.tail`: a request of 1,000 and then a read of each partition to its end, the
    read alone counted. Milliseconds, p50 of blocks in turn. What was there before is named by the tables' logs, as in
    `jobs-retention`; nobody reads it.
    """
    few, many = size.retained_files, size.retained_files * _TIMES
    for root, files in ((place / "few", few), (place / "many", many)):
        _make(root, files)
    with_many, with_few = Worker(_serve, place / "many"), Worker(_serve, place / "few")
    try:
        for what in ("append", "requests", "tail"):
            yield _compare(what, with_many, with_few, size, {"files": many})
    finally:
        with_many.close()
        with_few.close()


def _make(root: Path, count: int) -> None:
    make_topic(root, retention_ms=-1, lakelog_commit_interval_ms=100)
    table, at_ms = root / "topics" / TOPIC, now_ms() - HOUR_MS
    files = [
        describe_file(partition, number * _RECORDS, _RECORDS, _FILE_BYTES, at_ms)
        for partition in range(PARTITIONS)
        for number in range(max(1, count // PARTITIONS))
    ]
    for partition in range(PARTITIONS):
        (table / f"partition={partition}").mkdir()
        (table / f"partition={partition}" / _EMPTY).touch()
    for file in files:
        os.link(table / f"partition={file.partition}" / _EMPTY, table / file.path)
    commit_files(root, TOPIC, files, checkpoint=True)


def _compare(what: str, with_many: Worker, with_few: Worker, size: Size, params: dict[str, Any]) -> Row:
    measured: list[list[float]] = []
    bases: list[list[float]] = []
    for worker in (with_many, with_few):
        worker.ask(what, size.singles)
    for _ in range(size.turns * _BLOCKS_A_TURN):
        with with_few.paused():
            measured.append(with_many.ask(what, size.singles))
        with with_many.paused():
            bases.append(with_few.ask(what, size.singles))
    p50s, own = ([percentile(block, 0.5) for block in blocks] for blocks in (measured, bases))
    row = Row(name=f"retained.{what}", params=params, value=median(p50s), unit="ms", low=min(p50s), high=max(p50s))
    row.p50, row.p99 = row.value, median(percentile(block, 0.99) for block in measured)
    row.also = {"ms p99 with few": median(percentile(block, 0.99) for block in bases)}
    return judge(beside(row, f"a {_TIMES}th of the files", p50s, own), SAME)


def _serve(connection: Connection, root: Path) -> None:
    """In a process of its own: does what it is asked until nobody asks."""
    logging.disable(logging.WARNING)
    records = make_records(20_000)
    singles, requests = to_requests(records[:1_000], 1), to_requests(records, _RECORDS)
    with Log.open(root) as log:
        log.append(TOPIC, singles[0])
        while True:
            match connection.recv():
                case ("append", count):
                    block = [singles[place % len(singles)] for place in range(count)]
                    taken = time_each(lambda request: log.append(TOPIC, request), block)
                case ("requests", count):
                    block = [requests[place % len(requests)] for place in range(count)]
                    taken = time_each(lambda request: log.append(TOPIC, request), block)
                case ("tail", count):
                    taken = [_read_tail(log, requests[place % len(requests)]) for place in range(count // 4)]
                case unknown:
                    raise ValueError(unknown)
            connection.send([seconds * 1000 for seconds in taken])


def _read_tail(log: Log, request: Any) -> float:
    before = [log.offsets(TOPIC, index).end_offset for index in range(PARTITIONS)]
    log.append(TOPIC, request)
    began = perf_counter()
    read = sum(log.read(TOPIC, index, offset, max_bytes=8_000_000).count for index, offset in enumerate(before))
    seconds = perf_counter() - began
    if read != len(request):
        raise RuntimeError(f"of {len(request)} records {read} were read")
    return seconds
