"""The benchmarks of the jobs run, and each row that they promise comes with a number."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.catalogue import BENCHMARKS
from benchmarks.rows import Row, render
from benchmarks.sizes import SIZES

#: What each is to tell beside its baselines; `jobs-start` makes processes with a JVM of their own, which is its point.
TOLD = {
    "jobs-compaction": ["engine=local", "engine=spark"] * 2,
    "jobs-key-compaction": ["engine=local", "engine=spark"] * 2,
    "jobs-scan": [
        *("by=native", "by=path", "by=path+server", "by=server", "by=memory"),
        *("by=native", "by=path", "by=path+server", "by=server", "by=path, offset", "by=memory, offset"),
    ],
    "jobs-latency": ["by=native", "by=server", "by=path+server"],
    "jobs-start": ["engine=local", "engine=spark", "state=cold"],
}


def test_every_benchmark_that_needs_spark_is_run_here():
    assert TOLD.keys() == {name for name, benchmark in BENCHMARKS.items() if benchmark.spark}


@pytest.mark.parametrize("name", TOLD)
def test_a_benchmark_of_a_job_runs_in_the_session_that_is_there(spark: SparkSession, tmp_path: Path, name: str):
    benchmark = BENCHMARKS[name]
    rows: list[Row] = list(getattr(import_module(benchmark.module), benchmark.function)(tmp_path, SIZES["smoke"]))
    assert all(row.value > 0 and render(row) for row in rows)
    told = [row for row in rows if row.name.startswith(name)]
    kinds = [f"{key}={row.params[key]}" for row in told for key in ("engine", "by", "state") if key in row.params]
    assert kinds == TOLD[name]
    assert spark.range(3).count() == 3, "the session is still there"
