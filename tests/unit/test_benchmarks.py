"""Every benchmark runs, says what its rows mean, and tells its numbers in lines that a program can read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.catalogue import BENCHMARKS
from benchmarks.rows import Row, Target, beside, judge, over_turns, percentile, render

ROOT = Path(__file__).parents[2]
KEYS = {"name", "params", "value", "unit", "p50", "p99", "baseline", "ratio", "target", "met"}


def run_benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=50)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_and_leaves_only_its_rows_behind(tmp_path: Path, name: str):
    results, place = tmp_path / "results.json", tmp_path / "place"
    ended = run_benchmarks("--only", name, "--size", "smoke", "--dir", str(place), "--json", str(results))
    assert (ended.returncode, ended.stderr) == (0, "")
    machine, *rows = [json.loads(line) for line in results.read_text().splitlines()]
    assert machine["name"] == "machine"
    assert rows
    assert all(row.keys() >= KEYS and row["value"] >= 0 for row in rows)
    assert list(place.iterdir()) == []


def test_the_list_says_what_the_rows_mean():
    listed = run_benchmarks("--list").stdout
    assert [name for name in BENCHMARKS if f"{name}: {BENCHMARKS[name].summary}\n    " not in listed] == []


def test_an_unknown_benchmark_is_refused():
    assert run_benchmarks("--only", "nonsense").returncode == 2


def test_a_percentile_is_a_value_that_was_measured():
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.0, 0.5, 0.99, 1.0)] == [1, 50, 99, 100]
    assert percentile([7.0], 0.99) == 7


def test_a_ratio_is_the_median_of_those_of_each_turn():
    row = beside(over_turns([10, 20, 90], "records/s", name="x"), "y", [10, 20, 90], [10, 40, 30])
    assert (row.value, row.low, row.high, row.baseline_value, row.ratio) == (20, 10, 90, 30, 1)


@pytest.mark.parametrize(("bound", "met"), [(1.5, True), (1.0, True), (0.9, False)])
def test_a_row_is_judged_by_its_target(bound: float, met: bool):
    row = judge(Row(name="x", value=3, unit="ms", ratio=1.0), Target("ratio", "<=", bound))
    assert row.met is met
    assert ("met" if met else "MISSED") in render(row)
