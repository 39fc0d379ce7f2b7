"""Sustained load: whether the tables keep up with the journal, and what that leaves for appends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.append import BEST, BEST_ARROW
from benchmarks.baselines import PIPELINE, run_pipeline
from benchmarks.driving import drive
from benchmarks.processes import MB
from benchmarks.records import make_records, to_arrow, to_requests
from benchmarks.rows import Param, Row, Target, beside, judge
from benchmarks.sizes import Size
from benchmarks.topics import PARTITIONS
from benchmarks.watching import Lag, live_of
from delta_log.log import Log
from delta_log.model.types import Record

_CALLERS = 4
_PER_REQUEST = 1_000
#: How often the pipeline runs before the load, and again behind it.
_PIPELINES = 5


def run(place: Path, size: Size) -> Iterator[Row]:
    """1,000 records a request, 4 threads, 4 partitions, as fast as answers come; then the same with Arrow requests.

    `sustained`: records acknowledged a second over the whole time, with the latencies of requests; where tables fall
    behind by too much, appends wait for them, so this is what can be kept up; the straight-line pipeline runs before
    and behind it. `sustained.lag`: the greatest age of the
    oldest record that was not in the table; `.lag-at-end`: that age when the load ends; `.drain`: how long until all
    was in the table after that; `.untabled`: the most that was not in the table, counted as the log counts it.
    """
    requests = to_requests(make_records(size.pool), _PER_REQUEST)
    with Log.open(place / "objects") as log:
        yield from _sustain(log, "objects", log.append, requests, requests, BEST, size)
    with Log.open(place / "arrow") as log:
        tables = [to_arrow(request) for request in requests]
        yield from _sustain(log, "arrow", log.append_arrow, tables, requests, BEST_ARROW, size)


def _sustain(
    log: Log,
    kind: str,
    append: Callable[[str, Any], object],
    requests: Sequence[Any],
    records: Sequence[Sequence[Record]],
    target: Target,
    size: Size,
) -> Iterator[Row]:
    log.create_topic("orders", PARTITIONS)
    drive(lambda request: append("orders", request), requests, callers=_CALLERS, seconds=size.seconds)
    log.flush("orders")
    pipelines = [run_pipeline(records) for _ in range(_PIPELINES)]
    lag = Lag(live_of(log, "orders"))
    with lag.watched():
        load = drive(lambda request: append("orders", request), requests, callers=_CALLERS, seconds=size.sustained_s)
        at_end = lag.now()
    began = perf_counter()
    log.flush("orders")
    drained = perf_counter() - began
    pipelines += [run_pipeline(records) for _ in range(_PIPELINES)]
    params: dict[str, Param] = {"by": kind, "records": _PER_REQUEST, "callers": _CALLERS, "seconds": size.sustained_s}
    rate = load.per_second(_PER_REQUEST)
    row = Row(name="sustained", params=params, value=rate, unit="records/s", p50=load.ms(0.5), p99=load.ms(0.99))
    yield judge(beside(row, PIPELINE, [rate], [median(pipelines)]), target)
    yield Row(name="sustained.lag", params=params, value=lag.oldest_s, unit="s")
    yield Row(name="sustained.lag-at-end", params=params, value=at_end, unit="s")
    yield Row(name="sustained.drain", params=params, value=drained, unit="s")
    yield Row(name="sustained.untabled", params=params, value=lag.most_bytes / MB, unit="MB")
