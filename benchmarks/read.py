"""Reading: the live end from memory, the past from parquet, and a little from anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from time import perf_counter

from benchmarks.baselines import read_with_pyarrow
from benchmarks.driving import time_each
from benchmarks.processes import MB
from benchmarks.records import RECORD_BYTES, make_records, to_requests
from benchmarks.rows import Row, Target, beside, judge, over_turns, percentile
from benchmarks.sizes import Size
from benchmarks.topics import PARTITIONS, fill_topic, topic_files
from delta_log.log import Log
from delta_log.model.types import Record

_PER_REQUEST = 1_000
_FETCHED = 500
_TAIL_BYTES = 8 * MB
_CATCH_UP_BYTES = 256 * MB
CATCH_UP = Target("ratio", ">=", 0.5)


def run(place: Path, size: Size) -> Iterator[Row]:
    """MB are of keys and values; time is that of the reads alone; records come as Arrow.

    `read.tail`: the partitions are read to their ends after every 1, or every 100, requests of 1,000 records, which
    are still in memory then; latencies are of one read of one partition. `read.catch-up`: after the log was opened
    anew, so from parquet, every partition from 0 to its end with at most 256 MB a read, in turn with pyarrow's own
    read of the same columns of the same files; the target is beside pyarrow on all cores, and the log
    verifies checksums that pyarrow does not. `read.random`: 500 records from a random offset of a random partition,
    from parquet.
    """
    records = make_records(size.pool)
    root = place / "root"
    with Log.open(root) as log:
        requests = to_requests(records, _PER_REQUEST)
        yield from _tail(log, requests, size, behind=1)
        yield from _tail(log, requests, size, behind=100)
        fill_topic(log, "orders", records, size.stored)
    with Log.open(root) as log:
        yield from _catch_up(log, topic_files(root, "orders"), size)
        yield _random(log, size)


def _tail(log: Log, requests: Sequence[Sequence[Record]], size: Size, *, behind: int) -> Iterator[Row]:
    topic = f"tail-{behind}"
    log.create_topic(topic, PARTITIONS)
    positions = [0] * PARTITIONS
    rates: list[float] = []
    each: list[float] = []
    for turn in range(size.turns + 1):
        taken: list[float] = []
        read, until = 0, perf_counter() + size.seconds
        while not taken or perf_counter() < until:
            for place in range(behind):
                log.append(topic, requests[place % len(requests)])
            for partition in range(PARTITIONS):
                count, seconds = _read_to_end(log, topic, partition, positions)
                read += count
                taken += seconds
        if turn:
            rates.append(read / sum(taken))
            each += taken
    log.delete_topic(topic)
    params = {"behind": behind * _PER_REQUEST}
    row = over_turns(rates, "records/s", name="read.tail", params=params)
    row.p50, row.p99 = percentile(each, 0.5) * 1000, percentile(each, 0.99) * 1000
    yield row
    yield over_turns([rate * RECORD_BYTES / MB for rate in rates], "MB/s", name="read.tail", params=params)


def _read_to_end(log: Log, topic: str, partition: int, positions: list[int]) -> tuple[int, list[float]]:
    count = 0
    taken: list[float] = []
    end = log.offsets(topic, partition).end_offset
    while positions[partition] < end:
        began = perf_counter()
        fetched = log.read(topic, partition, positions[partition], max_bytes=_TAIL_BYTES)
        taken.append(perf_counter() - began)
        count += fetched.count
        positions[partition] = fetched.next_offset
    return count, taken


def _catch_up(log: Log, files: Sequence[Path], size: Size) -> Iterator[Row]:
    rates: list[float] = []
    pyarrows: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(size.turns + 1):
        measured = {threads: read_with_pyarrow(files, threads=threads) for threads in pyarrows}
        rate = _read_all(log)
        if turn:
            rates.append(rate)
            for threads, own in measured.items():
                pyarrows[threads].append(own)
    params = {"files": len(files), "max_bytes": _CATCH_UP_BYTES}
    row = over_turns(rates, "records/s", name="read.catch-up", params=params)
    yield judge(beside(row, "pyarrow, all cores", rates, pyarrows[True]), CATCH_UP)
    row = over_turns(rates, "records/s", name="read.catch-up", params=params)
    yield beside(row, "pyarrow, one core", rates, pyarrows[False])
    sizes = [rate * RECORD_BYTES / MB for rate in rates]
    row = over_turns(sizes, "MB/s", name="read.catch-up", params=params)
    yield beside(row, "pyarrow, all cores", sizes, [rate * RECORD_BYTES / MB for rate in pyarrows[True]])


def _read_all(log: Log) -> float:
    read = 0
    began = perf_counter()
    for partition in range(PARTITIONS):
        position, end = 0, log.offsets("orders", partition).end_offset
        while position < end:
            fetched = log.read("orders", partition, position, max_bytes=_CATCH_UP_BYTES)
            read += fetched.count
            position = fetched.next_offset
    return read / (perf_counter() - began)


def _random(log: Log, size: Size) -> Row:
    random = Random(11)
    ends = [log.offsets("orders", partition).end_offset for partition in range(PARTITIONS)]
    partitions = [random.randrange(PARTITIONS) for _ in range(size.fetches)]
    wanted = [(partition, random.randrange(max(1, ends[partition] - _FETCHED))) for partition in partitions]
    taken = time_each(lambda at: log.read("orders", *at, max_records=_FETCHED), wanted)
    p50, p99 = percentile(taken, 0.5) * 1000, percentile(taken, 0.99) * 1000
    return Row(name="read.random", params={"records": _FETCHED}, value=p50, unit="ms", p50=p50, p99=p99)
