"""Turns of cases, each immediately behind its baseline, and the rows that come of them."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.baselines import GrowingFile
from benchmarks.http_cases import GENERATORS, PYTHON, WRK, Case, can_drive, measure
from benchmarks.http_load import MB, HttpLoad
from benchmarks.http_pipeline import SPLITTERS, run_body_pipeline
from benchmarks.http_servers import ECHO, ServerProcess, lakelog_command
from benchmarks.rows import Param, Row, Target, beside, judge, over_turns, percentile
from benchmarks.sizes import Size

ECHOED: Final = "bare ASGI echo"
PIPELINE: Final = "straight-line pipeline"
_LARGE: Final = 1_000
_BODY_BYTES: Final = 1_000_000
#: Of the bare writes of a large body.
_LARGE_WRITES: Final = 10
#: What is wanted of requests of one record, by the number of connections.
ONE_RECORD: Final = {16: Target("p99", "<=", 10.0), 64: Target("ratio", ">=", 0.6)}
ALONE: Final = Target("ratio", "<=", 1.0)
_ALLOWED_MS: Final = 0.1


@dataclass(slots=True)
class Turns:
    """What each turn brought: for each case a list with an entry a turn."""

    loads: dict[Case, list[HttpLoad]] = field(default_factory=lambda: defaultdict[Case, list[HttpLoad]](list))
    echoes: dict[Case, list[HttpLoad]] = field(default_factory=lambda: defaultdict[Case, list[HttpLoad]](list))
    pipelines: dict[Case, list[float]] = field(default_factory=lambda: defaultdict[Case, list[float]](list))
    #: milliseconds of write + fdatasync of a body
    syncs: dict[Case, list[float]] = field(default_factory=lambda: defaultdict[Case, list[float]](list))
    payloads: dict[Case, float] = field(default_factory=dict[Case, float])
    body_bytes: dict[Case, int] = field(default_factory=dict[Case, int])

    def rates(self, case: Case) -> list[float]:
        return [load.per_second * case.records for load in self.loads[case]]

    def best(self, fits: Callable[[Case], bool]) -> Case | None:
        """The fastest of some cases, driven by wrk where it is."""
        by = WRK if can_drive(WRK) else PYTHON
        found = [case for case in self.loads if case.by == by and fits(case)]
        return max(found, key=lambda case: median(self.rates(case)), default=None)


def take_turns(place: Path, size: Size, cases: Sequence[Case]) -> Turns:
    """Every turn has a new root and a new server; the echo stays, as it remembers nothing."""
    turns = Turns()
    cases = list(dict.fromkeys(case if can_drive(case.by) else replace(case, by=PYTHON) for case in cases))
    with ServerProcess(ECHO, place / "echo.log") as echo:
        for turn in range(size.turns):
            root = place / f"root-{turn}"
            with ServerProcess(lakelog_command(root), place / "server.log") as server:
                _warm_up(server.url, size)
                for case in cases:
                    _take_turn(echo.url, server.url, case, place / "growing", size, turns)
            shutil.rmtree(root)
    return turns


def _warm_up(url: str, size: Size) -> None:
    """Long enough for the journal to have rolled and to have segments to use again."""
    case = Case("binary", 100, 4, by="python")
    measure(url, case, case.requests(size), 2 * size.seconds)


def _take_turn(echo: str, url: str, case: Case, growing: Path, size: Size, turns: Turns) -> None:
    requests = case.requests(size)
    turns.payloads[case], turns.body_bytes[case] = requests.payload, requests.body_bytes
    if case.records == 1:
        drive = GENERATORS[case.by]
        echoed = drive(f"{echo}/echo", requests, connections=case.connections, seconds=size.seconds)
        turns.echoes[case].append(echoed)
    elif case.records >= _LARGE and case.form in SPLITTERS:
        rate = run_body_pipeline(requests, case.form, keyed=case.keyed, seconds=size.seconds)
        turns.pipelines[case].append(rate)
    if (case.records, case.connections) == (1, 1) or case.value_bytes >= _LARGE:
        count = size.singles if requests.body_bytes < _BODY_BYTES else _LARGE_WRITES
        turns.syncs[case].append(time_sync(growing, requests.body_bytes, count))
    turns.loads[case].append(measure(url, case, requests, size.seconds))


def time_sync(growing: Path, length: int, count: int) -> float:
    """The median of write + fdatasync, in milliseconds."""
    with GrowingFile(growing) as file:
        taken = file.time_writes(length, count)
    growing.unlink()
    return percentile(taken, 0.5) * 1000


def rows_of_baselines(turns: Turns) -> Iterator[Row]:
    """What the rows that follow stand beside."""
    for case, echoes in turns.echoes.items():
        yield row_of_loads("http.echo", _params_of_body(turns, case), echoes, 1, "requests/s")
    for case, syncs in turns.syncs.items():
        yield over_turns(syncs, "ms", name="http.sync", params=_params_of_body(turns, case))
    for case, rates in turns.pipelines.items():
        yield over_turns(rates, "records/s", name="http.pipeline", params=case.params)


def _params_of_body(turns: Turns, case: Case) -> dict[str, Param]:
    """Of the case that came next, and how long one of its bodies is."""
    return case.params | {"bytes": turns.body_bytes[case]}


def rows_of_cases(name: str, turns: Turns) -> Iterator[Row]:
    """A row for each case; those with one record are judged by what the echo does in the same turn."""
    for case, loads in turns.loads.items():
        row = row_of_loads(name, case.params, loads, case.records, "records/s")
        row.also["MB/s"] = row.value / case.records * turns.payloads[case] / MB
        rates = turns.rates(case)
        if case in turns.echoes:
            row = beside(row, ECHOED, rates, [echo.per_second for echo in turns.echoes[case]])
        elif case in turns.pipelines:
            row = beside(row, PIPELINE, rates, turns.pipelines[case])
        if case.records == 1 and case.by == WRK and case.connections in ONE_RECORD:
            row = judge(row, ONE_RECORD[case.connections])
        yield refuse_refusals(row, loads)
        if (case.records, case.connections) == (1, 1):
            yield _alone(f"{name}.alone", turns, case)


def _alone(name: str, turns: Turns, case: Case) -> Row:
    """The p50 of one record over one connection, beside what it should not exceed."""
    p50s = [load.p50 for load in turns.loads[case]]
    bounds = [
        echo.p50 + 2 * sync + _ALLOWED_MS for echo, sync in zip(turns.echoes[case], turns.syncs[case], strict=True)
    ]
    row = beside(over_turns(p50s, "ms", name=name, params=case.params), "echo + 2 syncs + 0.1 ms", p50s, bounds)
    row.p50, row.p99 = row.value, median(load.p99 for load in turns.loads[case])
    return judge(row, ALONE)


def row_of_loads(name: str, params: dict[str, Param], loads: Sequence[HttpLoad], records: int, unit: str) -> Row:
    row = over_turns([load.per_second * records for load in loads], unit, name=name, params=params)
    row.p50, row.p99 = median(load.p50 for load in loads), median(load.p99 for load in loads)
    row.also["p99.9 ms"] = median(load.p999 for load in loads)
    if records > 1:
        row.also["requests/s"] = median(load.per_second for load in loads)
    return row


def refuse_refusals(row: Row, loads: Sequence[HttpLoad]) -> Row:
    """A server that refuses requests is fast; that is no merit."""
    refused = sum(load.refused + load.broken for load in loads)
    if refused:
        row.also["not answered with 2xx"] = refused
        row.target, row.met = f"{row.target} and none refused" if row.target else "none refused", False
    return row
