"""Transactions: how many a second, how long a commit takes, and starting on many that are decided."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.processes import die, run_fresh, run_until_killed
from benchmarks.rows import Row, Target, judge, over_turns, percentile
from benchmarks.sizes import Size
from delta_log.log import Log
from delta_log.model.types import Record

_PARTITIONS: Final = (1, 10)
_DECIDED: Final = 1_000
_NAMES: Final = 50
_VALUE: Final = b"v" * 100
_NEVER_COMMIT: Final = {"lakelog.commit.interval.ms": 3_600_000, "lakelog.commit.bytes": 2**31 - 1}
QUICKLY: Final = Target("value", "<=", 2.0)
ENOUGH: Final = (Target("value", ">=", 300.0), Target("p50", "<=", 10.0))


def run(place: Path, size: Size) -> Iterator[Row]:
    """A transaction is begun, given one request with a record of 100 bytes for each partition, and committed.

    `transactions`: whole ones a second, by threads of which each has a transactional id of its own; p50 and p99 are of
    the commit alone. `transactions.http`: the same by `Producer.transaction()` and a server, so by three requests or
    more; p50 and p99 are of leaving the block, which sends what is left and commits. `transactions.restart`: seconds of
    opening a root with a thousand that are decided and in no table, imports not counted, and of asking for what became
    of one.
    """
    for partitions in _PARTITIONS:
        for callers in size.callers[:2]:
            yield _row(place / "root", partitions, callers, size)
    with ServerProcess(lakelog_command(place / "served"), place / "server.log") as server:
        for partitions in _PARTITIONS:
            for callers in size.callers[:2]:
                yield _row_over_http(server.url, partitions, callers, size)
    yield _restart(place, size)


def _row(root: Path, partitions: int, callers: int, size: Size) -> Row:
    rates: list[float] = []
    commits: list[float] = []
    for _ in range(size.turns):
        with Log.open(root) as log, ThreadPoolExecutor(callers) as threads:
            log.create_topic("orders", partitions)
            end = perf_counter() + size.seconds
            began = perf_counter()
            done = [threads.submit(_work, log, f"caller-{number}", partitions, end) for number in range(callers)]
            taken = [seconds for each in done for seconds in each.result()]
            rates.append(len(taken) / (perf_counter() - began))
            commits += taken
            stored = sum(log.offsets("orders", index).end_offset for index in range(partitions))
        if stored != len(taken) * partitions:
            raise RuntimeError(f"{len(taken)} transactions were committed, and {stored} records are there")
        shutil.rmtree(root)
    return _judged("transactions", rates, commits, partitions, callers)


def _judged(name: str, rates: list[float], commits: list[float], partitions: int, callers: int) -> Row:
    row = over_turns(rates, "1/s", name=name, params={"partitions": partitions, "callers": callers})
    row.p50, row.p99 = percentile(commits, 0.5) * 1000, percentile(commits, 0.99) * 1000
    return judge(row, *ENOUGH)


def _work(log: Log, name: str, partitions: int, end: float) -> list[float]:
    """How long each commit took; at least one."""
    records = [Record(_VALUE, partition=index) for index in range(partitions)]
    taken: list[float] = []
    while not taken or perf_counter() < end:
        begun = log.transactions.begin(name)
        log.transactions.append(begun.id, "orders", records)
        asked = perf_counter()
        log.transactions.commit(begun.id)
        taken.append(perf_counter() - asked)
    return taken


def _row_over_http(url: str, partitions: int, callers: int, size: Size) -> Row:
    rates: list[float] = []
    commits: list[float] = []
    for turn in range(size.turns):
        topic = f"orders-{partitions}-{callers}-{turn}"
        with Asker(url) as asker:
            asker.create_topic(topic, partitions)
            taken, seconds = run_fresh(_send_by_threads, url, topic, partitions, callers, size.seconds)
            rates.append(len(taken) / seconds)
            commits += taken
            stored = sum(asker.end_offsets(topic))
            if stored != len(taken) * partitions:
                raise RuntimeError(f"{len(taken)} transactions were committed, and {stored} records are there")
            asker.delete_topic(topic)
    return _judged("transactions.http", rates, commits, partitions, callers)


def _send_by_threads(url: str, topic: str, partitions: int, callers: int, seconds: float) -> tuple[list[float], float]:
    """How long each block took to be left, and all of it together."""
    import lakelog  # noqa: F401, PLC0415 - before it counts

    with ThreadPoolExecutor(callers) as threads:
        began = perf_counter()
        done = [
            threads.submit(_send, url, topic, f"{topic}-{number}", partitions, began + seconds)
            for number in range(callers)
        ]
        return [each for one in done for each in one.result()], perf_counter() - began


def _send(url: str, topic: str, name: str, partitions: int, end: float) -> list[float]:
    """At least one."""
    from lakelog import Producer  # noqa: PLC0415 - in the process that needs it

    taken: list[float] = []
    with Producer({"bootstrap.servers": url, "transactional.id": name}) as producer:
        while not taken or perf_counter() < end:
            with producer.transaction():
                for index in range(partitions):
                    producer.send(topic, _VALUE, partition=index)
                asked = perf_counter()
            taken.append(perf_counter() - asked)
    return taken


def _restart(place: Path, size: Size) -> Row:
    root, copy = place / "decided", place / "copy"
    run_until_killed(_decide, root)
    opened: list[float] = []
    for _ in range(size.turns):
        shutil.copytree(root, copy)
        opened.append(run_fresh(_time_start, copy))
        shutil.rmtree(copy)
    shutil.rmtree(root)
    row = over_turns(opened, "s", name="transactions.restart", params={"decided": _DECIDED, "partitions": 10})
    return judge(row, QUICKLY)


def _decide(root: Path) -> None:
    log = Log.open(root)
    log.create_topic("orders", 10, _NEVER_COMMIT)
    records = [Record(_VALUE, partition=index) for index in range(10)]
    for number in range(_DECIDED):
        begun = log.transactions.begin(f"caller-{number % _NAMES}")
        log.transactions.append(begun.id, "orders", records)
        log.transactions.commit(begun.id)
    die()


def _time_start(root: Path) -> float:
    logging.disable(logging.WARNING)
    began = perf_counter()
    log = Log.open(root)
    log.transactions.begin("caller-0")
    taken = perf_counter() - began
    found = sum(log.offsets("orders", index).end_offset for index in range(10))
    log.close()
    if found != _DECIDED * 10:
        raise RuntimeError(f"{_DECIDED} transactions were decided, and {found} records are there")
    return taken
