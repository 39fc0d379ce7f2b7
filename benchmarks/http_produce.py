"""Producing over HTTP: what a request costs when every answer is durable, in every format, by few and by many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.http_cases import PYTHON, Case, tell_absent
from benchmarks.http_load import MB
from benchmarks.http_turns import PIPELINE, Turns, rows_of_baselines, rows_of_cases, take_turns
from benchmarks.rows import Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size

_LARGE: Final = 1_000
_TEN: Final = 10_000
_BIG_VALUE: Final = 1_000
BEST_JSON: Final = (Target("ratio", ">=", 0.5), Target("value", ">=", 407_000))
BEST_ARROW: Final = Target("ratio", ">=", 3.0)
BEST_ARROW_ALONE: Final = Target("value", ">=", 1_220_000)
BIG_VALUES: Final = Target("value", ">=", 180.0)


def run(place: Path, size: Size) -> Iterator[Row]:
    """v2's JSON with base64, values of 100 bytes without keys; every turn in a new root with a topic for each case.

    `http.echo`: a bare ASGI app on stock uvicorn is sent the same, by the same generator, immediately before each case
    of one record; `http.sync`: a bare write + fdatasync as long as a body; `http.pipeline`: one core that decodes the
    same bodies, hashes keys, builds Arrow and encodes parquet, before each case of 1,000 records. `http-json`: records
    acknowledged a second; what is stored is counted behind each case, and a lost record fails the benchmark. `.alone`:
    the p50 of one record over one connection, beside the echo's + 2 syncs + 0.1 ms. `.best`: the best number of
    connections for 1,000 records. The generator wrk corrects its percentiles for the requests that a slow answer kept
    from being sent; the one in Python does not, and is slower itself: its rows are not judged.
    """
    name = "http-json"
    yield from tell_absent(name)
    cases = [Case("binary", records, each) for records in (1, 100, _LARGE) for each in size.connections]
    cases += [Case("binary", records, each, by=PYTHON) for records in (1, _LARGE) for each in size.connections]
    turns = take_turns(place, size, cases)
    yield from rows_of_baselines(turns)
    yield from rows_of_cases(name, turns)
    best = turns.best(lambda case: case.records == _LARGE)
    if best is not None:
        row = over_turns(turns.rates(best), "records/s", name=f"{name}.best", params=best.params)
        yield judge(beside(row, PIPELINE, turns.rates(best), turns.pipelines[best]), *BEST_JSON)


def run_lines(place: Path, size: Size) -> Iterator[Row]:
    """The same for NDJSON, a value a line, and for one value as it is; `http-lines.best` beside the pipeline."""
    name = "http-lines"
    yield from tell_absent(name)
    kinds = (("ndjson", 1), ("ndjson", 100), ("ndjson", _LARGE), ("octets", 1))
    turns = take_turns(place, size, [Case(*kind, each) for kind in kinds for each in size.connections])
    yield from rows_of_baselines(turns)
    yield from rows_of_cases(name, turns)
    best = turns.best(lambda case: case.records == _LARGE)
    if best is not None:
        row = over_turns(turns.rates(best), "records/s", name=f"{name}.best", params=best.params)
        yield judge(beside(row, PIPELINE, turns.rates(best), turns.pipelines[best]), *BEST_JSON)


def run_arrow(place: Path, size: Size) -> Iterator[Row]:
    """The same for Arrow streams, and 1,000 records of JSON in the same turns.

    `http-arrow.best`: the best of Arrow, beside the best of JSON, and again beside nothing.
    """
    name = "http-arrow"
    yield from tell_absent(name)
    kinds = (("binary", _LARGE), ("arrow", 1), ("arrow", 100), ("arrow", _LARGE), ("arrow", _TEN))
    turns = take_turns(place, size, [Case(*kind, each) for kind in kinds for each in size.connections])
    yield from rows_of_baselines(turns)
    yield from rows_of_cases(name, turns)
    arrow, json = (turns.best(_is_form(form)) for form in ("arrow", "binary"))
    if arrow is not None and json is not None:
        rates = turns.rates(arrow)
        row = over_turns(rates, "records/s", name=f"{name}.best", params=arrow.params)
        yield judge(beside(row, "JSON, its best", rates, turns.rates(json)), BEST_ARROW)
        yield judge(over_turns(rates, "records/s", name=f"{name}.best", params=arrow.params), BEST_ARROW_ALONE)


def run_values(place: Path, size: Size) -> Iterator[Row]:
    """Records with keys of 16 bytes, and values of 1,000 bytes: few cases of each format.

    `http-values.best`: MB of keys and values a second, with values of 1,000 bytes; beside a bare write + fdatasync of
    one body after the other, counted in the same MB.
    """
    name = "http-values"
    yield from tell_absent(name)
    forms = ("binary", "ndjson", "arrow")
    cases = [Case("binary", 1, each, *kind) for kind in ((100, True), (_BIG_VALUE, False)) for each in size.connections]
    cases += [
        Case(form, _LARGE, each, *kind)
        for form in forms
        for kind in ((100, True), (_BIG_VALUE, False))
        for each in size.connections[:2]
    ]
    turns = take_turns(place, size, cases)
    yield from rows_of_baselines(turns)
    yield from rows_of_cases(name, turns)
    for form in forms:
        best = turns.best(
            lambda case, form=form: (case.form, case.records, case.value_bytes) == (form, _LARGE, _BIG_VALUE)
        )
        if best is not None:
            yield _megabytes(f"{name}.best", turns, best)


def _megabytes(name: str, turns: Turns, case: Case) -> Row:
    rates = [load.per_second * turns.payloads[case] / MB for load in turns.loads[case]]
    bare = [turns.payloads[case] / MB / (milliseconds / 1000) for milliseconds in turns.syncs[case]]
    row = over_turns(rates, "MB/s", name=name, params=case.params)
    return judge(beside(row, "bare write+fdatasync, one by one", rates, bare), BIG_VALUES)


def _is_form(form: str) -> Callable[[Case], bool]:
    return lambda case: case.form == form
