"""Appending: what a request costs when every answer is durable, one caller or many, small requests or large."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.baselines import PIPELINE, SMALL, GrowingFile, run_pipeline
from benchmarks.driving import Load, drive, drive_tasks, time_each
from benchmarks.records import make_records, to_arrow, to_requests
from benchmarks.rows import Row, Target, beside, judge, over_turns, percentile
from benchmarks.sizes import Size
from benchmarks.topics import PARTITIONS
from delta_log.log import Log
from delta_log.model.types import Record

_BLOCK = 50
_BEST_OF = 1000
ALONE = Target("ratio", "<=", 1.5)
BEST = Target("ratio", ">=", 0.5)
BEST_ARROW = Target("ratio", ">=", 0.7)


@dataclass(frozen=True, slots=True)
class Case:
    kind: str
    records: int
    callers: int


@dataclass(slots=True)
class Turns:
    """What each turn brought."""

    loads: dict[Case, list[Load]] = field(default_factory=lambda: defaultdict[Case, list[Load]](list))
    pipelines: dict[Case, list[float]] = field(default_factory=lambda: defaultdict[Case, list[float]](list))
    alone: list[list[float]] = field(default_factory=list[list[float]])
    bare: list[list[float]] = field(default_factory=list[list[float]])


_KINDS = (("threads", 1), ("tasks", 1), ("threads", 100), ("threads", 1_000), ("threads", 10_000))
_ARROW_KINDS = (("arrow", 1_000), ("arrow", 10_000))


def run(place: Path, size: Size) -> Iterator[Row]:
    """4 partitions, `Record` objects, each answer synced; every turn in a new root with a new topic for each case.

    `append.alone`: one record, one caller, in turn with a bare write + fdatasync of 200 bytes on a growing file of
    the same file system; its ratio is p50 : p50. `append`: threads that call `append`, or tasks that await
    `append_async`. `append.best`: the best number of callers for 1,000 records a request beside the straight-line
    pipeline, which runs immediately before each case of 1,000 records or more.
    """
    turns = _take_turns(place, size, [Case(*kind, callers) for kind in _KINDS for callers in size.callers])
    yield _alone(turns)
    yield from _rows("append", turns)
    yield judge(_best("append.best", turns, _BEST_OF), BEST)


def run_arrow(place: Path, size: Size) -> Iterator[Row]:
    """The same for `append_arrow`: `arrow` for each case, `arrow.best` beside the pipeline, which begins at objects."""
    turns = _take_turns(place, size, [Case(*kind, callers) for kind in _ARROW_KINDS for callers in size.callers[:2]])
    yield from _rows("arrow", turns)
    for _, records in _ARROW_KINDS:
        yield judge(_best("arrow.best", turns, records), BEST_ARROW)


def _take_turns(place: Path, size: Size, cases: Sequence[Case]) -> Turns:
    records = make_records(size.pool)
    turns = Turns()
    large = to_requests(records, _BEST_OF)
    run_pipeline(large)
    for turn in range(size.turns):
        root = place / f"root-{turn}"
        with Log.open(root) as log:
            _warm_up(log, large, size)
            if any(case.kind == "threads" for case in cases):
                _measure_alone(log, records[: size.singles], place / "growing", turns)
            for case in cases:
                if case.records >= _BEST_OF:
                    turns.pipelines[case].append(run_pipeline(large))
                turns.loads[case].append(_measure(log, case, records, size))
        shutil.rmtree(root)
    return turns


def _warm_up(log: Log, requests: Sequence[Sequence[Record]], size: Size) -> None:
    """Long enough for the journal to have rolled and to have segments to use again."""
    log.create_topic("warm", PARTITIONS)
    drive(lambda request: log.append("warm", request), requests, callers=4, seconds=2 * size.seconds)
    log.flush("warm")
    log.delete_topic("warm")


def _measure(log: Log, case: Case, records: Sequence[Record], size: Size) -> Load:
    """On a topic of its own, which is gone afterwards: the background works for the case that runs."""
    topic = f"{case.kind}-{case.records}-{case.callers}"
    log.create_topic(topic, PARTITIONS)
    requests = to_requests(records, case.records)
    log.append(topic, requests[0])
    if case.kind == "tasks":
        load = drive_tasks(
            lambda request: log.append_async(topic, request), requests, callers=case.callers, seconds=size.seconds
        )
    elif case.kind == "arrow":
        tables = [to_arrow(request) for request in requests]
        load = drive(lambda table: log.append_arrow(topic, table), tables, callers=case.callers, seconds=size.seconds)
    else:
        load = drive(lambda request: log.append(topic, request), requests, callers=case.callers, seconds=size.seconds)
    log.flush(topic)
    log.delete_topic(topic)
    return load


def _measure_alone(log: Log, records: Sequence[Record], growing: Path, turns: Turns) -> None:
    """Blocks of appends and of bare writes, one after the other."""
    log.create_topic("alone", PARTITIONS)
    alone: list[float] = []
    bare: list[float] = []
    with GrowingFile(growing) as file:
        file.time_writes(SMALL, _BLOCK)
        for start in range(0, len(records), _BLOCK):
            block = [[record] for record in records[start : start + _BLOCK]]
            bare += file.time_writes(SMALL, len(block))
            alone += time_each(lambda request: log.append("alone", request), block)
    turns.alone.append(alone)
    turns.bare.append(bare)
    log.delete_topic("alone")


def _alone(turns: Turns) -> Row:
    p50s = [percentile(taken, 0.5) * 1000 for taken in turns.alone]
    bare = [percentile(taken, 0.5) * 1000 for taken in turns.bare]
    row = over_turns(p50s, "ms", name="append.alone", params={"records": 1, "callers": 1})
    row.p50, row.p99 = row.value, median(percentile(taken, 0.99) * 1000 for taken in turns.alone)
    return judge(beside(row, f"bare write+fdatasync, {SMALL} B", p50s, bare), ALONE)


def _rows(name: str, turns: Turns) -> Iterator[Row]:
    for case, loads in turns.loads.items():
        rates = [load.per_second(case.records) for load in loads]
        params = {"by": case.kind, "records": case.records, "callers": case.callers}
        row = over_turns(rates, "records/s", name=name, params=params)
        row.p50 = median(load.ms(0.5) for load in loads)
        row.p99 = median(load.ms(0.99) for load in loads)
        yield beside(row, PIPELINE, rates, turns.pipelines[case]) if case in turns.pipelines else row


def _best(name: str, turns: Turns, records: int) -> Row:
    rates = {
        case: [load.per_second(records) for load in loads]
        for case, loads in turns.loads.items()
        if case.records == records
    }
    best = max(rates, key=lambda case: median(rates[case]))
    row = over_turns(rates[best], "records/s", name=name, params={"records": records, "callers": best.callers})
    return beside(row, PIPELINE, rates[best], turns.pipelines[best])
