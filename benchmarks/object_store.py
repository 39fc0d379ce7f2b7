"""A log in a bucket: how long an acknowledgement takes, and how soon a newcomer gives its first one."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from uuid import uuid4

from benchmarks.processes import run_fresh
from benchmarks.rows import Row, Target, judge, over_turns, percentile
from benchmarks.sizes import Size
from delta_log.log import Log
from delta_log.model.types import Record
from delta_log.startup.open import Settings
from delta_log.stores.objects import ObjectStore
from tests.support.s3_server import MISSING, find_server, options_for, s3_serving
from tests.support.store_proxy import StoreProxy

_WRITE_MS = (0, 60)
_BEYOND_MS = 10
_FEWEST = 5
_JOURNALED = 200
FAIL_OVER = Target("value", "<=", 2.0)


def run(place: Path, size: Size) -> Iterator[Row]:
    """Against an S3-compatible server on this machine, through a proxy that has each write take `write_ms` longer.

    `object-store.append`: requests of one record, one after the other, beside the p50 of a conditional write; an
    acknowledgement may take that, the linger, and 10 ms. `fail-over`: seconds from `Log.open` to the first
    acknowledgement in a fresh process, imports not counted, of a root whose owner lives and has journaled 200 records.
    """
    logging.disable(logging.ERROR)
    program = find_server()
    if program is None:
        yield Row(name="object-store", value=0.0, unit="", note=MISSING)
        return
    folder = place / "s3"
    folder.mkdir()
    with s3_serving(folder, program) as server, StoreProxy(server.address, random.Random(1)) as proxy:
        for write_ms in _WRITE_MS:
            root, options = server.root(uuid4().hex), options_for(proxy.url)
            proxy.delay_s = write_ms / 1000
            yield _measure_appends(root, options, write_ms, size)
            proxy.delay_s = 0.0
        for write_ms in _WRITE_MS:
            proxy.delay_s = write_ms / 1000
            took = [_measure_fail_over(server.root(uuid4().hex), options_for(proxy.url)) for _ in range(size.turns)]
            proxy.delay_s = 0.0
            params = {"write_ms": write_ms, "journaled": _JOURNALED}
            yield judge(over_turns(took, "s", name="fail-over", params=params), FAIL_OVER)


def _measure_appends(root: str, options: dict[str, str], write_ms: int, size: Size) -> Row:
    linger_ms = Settings().journal_linger_ms
    store = ObjectStore(root, options)
    appends: list[float] = []
    writes: list[float] = []
    with Log.open(root, store_options=options) as log:
        log.create_topic("orders")
        log.append("orders", [Record(b"first")])
        ends = perf_counter() + size.turns * size.seconds
        while perf_counter() < ends or len(appends) < _FEWEST:
            began = perf_counter()
            store.create(f"journal/staging/bench-{uuid4().hex}", b"x" * 300)
            wrote = perf_counter()
            log.append("orders", [Record(b"v")])
            writes.append((wrote - began) * 1000)
            appends.append((perf_counter() - wrote) * 1000)
    write = percentile(writes, 0.5)
    row = Row(
        name="object-store.append",
        params={"write_ms": write_ms, "linger_ms": linger_ms},
        value=percentile(appends, 0.5),
        unit="ms",
        p50=percentile(appends, 0.5),
        p99=percentile(appends, 0.99),
        baseline="one conditional write, ms",
        baseline_value=write,
    )
    return judge(row, Target("p50", "<=", write + linger_ms + _BEYOND_MS))


def _measure_fail_over(root: str, options: dict[str, str]) -> float:
    with Log.open(root, store_options=options, settings=Settings(journal_linger_ms=0)) as owner:
        owner.create_topic("orders", config={"lakelog.commit.interval.ms": 3_600_000})
        for number in range(_JOURNALED // 10):
            owner.append("orders", [Record(b"%d" % number)] * 10)
        return run_fresh(_take_over, root, options)


def _take_over(root: str, options: dict[str, str]) -> float:
    logging.disable(logging.ERROR)
    began = perf_counter()
    log = Log.open(root, store_options=options)
    log.append("orders", [Record(b"mine")])
    took = perf_counter() - began
    log.close()
    return took
