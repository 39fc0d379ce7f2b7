"""Key compaction by local threads and by Spark's executors."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.jobs_compaction import ENGINES, merge_barely
from benchmarks.jobs_running import run_timed, spark_session
from benchmarks.jobs_tables import PARTITIONS, Shape, copy_root, fill_with_files, live_files, make_topic
from benchmarks.processes import MB, run_fresh
from benchmarks.records import make_records
from benchmarks.rows import Param, Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size
from jobs.tables import key_compaction

RATE: Final = Target("value", ">=", 10.0)


def run(place: Path, size: Size) -> Iterator[Row]:
    """`jobs-key-compaction`: of a topic of 4 partitions that was never compacted, each turn compacts a fresh copy.

    Keys are drawn from so many as `keys` says: from few, nearly all records leave, from as many as a partition has
    records, a third does, and the rest is written anew. MB are of parquet whose keys are held against each other, per
    second and core: the whole job, from loading the table to its last commit, on all cores, the start of Python and
    Spark not counted. The baseline is pyarrow on one core that reads the same files, puts them together and writes
    them, as in `baseline.compaction`.
    """
    shape = Shape(size.files_large, size.pool)
    with spark_session(place):
        for keys in (size.pool // 2, shape.files // PARTITIONS * shape.records):
            yield from _compact(place, shape, keys, size)


def _compact(place: Path, shape: Shape, keys: int, size: Size) -> Iterator[Row]:
    root = place / "root"
    make_topic(root, cleanup_policy="compact")
    stored = fill_with_files(root, shape, make_records(size.pool), keys=keys) / MB
    rates: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    bases: list[float] = []
    stay: dict[str, float] = {}
    for _ in range(size.turns):
        bases.append(stored / run_fresh(merge_barely, live_files(root), place / "bare")[0])
        for engine, measured in rates.items():
            seconds, stay[engine] = _time_job(root, place / "copy", engine)
            measured.append(stored / seconds / (os.cpu_count() or 1))
    shutil.rmtree(root)
    for engine, measured in rates.items():
        params: dict[str, Param] = {"files": shape.files, "MB": round(stored, 1), "keys": keys, "engine": engine}
        row = over_turns(measured, "MB/s a core", name="jobs-key-compaction", params=params)
        row.also["% of the records stay"] = stay[engine]
        yield judge(beside(row, "pyarrow copies it, one core", measured, bases), RATE)


def _time_job(root: Path, copy: Path, engine: str) -> tuple[float, float]:
    """Seconds, and how many of a hundred records stayed."""
    copy_root(root, copy)
    ran = run_timed(key_compaction.main, copy, "--engine", engine)
    shutil.rmtree(copy)
    if ran.total("given_up") or not ran.total("passes"):
        raise RuntimeError(f"not all was compacted: {ran.topics}")
    return ran.seconds, 100 - 100 * ran.total("records_removed") / ran.total("records_held")
