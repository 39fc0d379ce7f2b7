"""Compaction by local threads and by Spark's executors, beside pyarrow doing the bare work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.jobs_running import run_timed, spark_session
from benchmarks.jobs_tables import Shape, copy_root, fill_with_files, live_files, make_topic
from benchmarks.processes import MB, run_fresh
from benchmarks.records import make_records
from benchmarks.rows import Param, Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size
from delta_log.model.schema import ROW_GROUP
from delta_log.model.topic_config import ParquetCodec
from jobs.tables import compaction

ENGINES: Final = ("local", "spark")
KERNEL: Final = Target("ratio", ">=", 0.6)
_CODEC: Final = ParquetCodec()
_SMALL_FILES_RECORDS: Final = 400


def run(place: Path, size: Size) -> Iterator[Row]:
    """A topic of 4 partitions, of which each turn compacts a fresh copy: each partition into one file.

    MB are of parquet that is read, per second and core: the whole job, from loading the table to its last commit, on
    all cores, the start of Python and Spark not counted. The baseline is pyarrow on one core and nothing beside it:
    each partition's files read, put together and written, with no checksums, no checks, no sync and no table.
    `jobs-compaction` has files of 100,000 records (2 MB) in one row and 5,000 files of 400 records (10 kB) in the
    other; `baseline.compaction` is that baseline by itself, also as MB per second of processor time.
    """
    with spark_session(place):
        for shape in (Shape(size.files_large, size.pool), Shape(size.files_small, _SMALL_FILES_RECORDS)):
            yield from _compact(place, shape, size)


def _compact(place: Path, shape: Shape, size: Size) -> Iterator[Row]:
    root = place / "root"
    make_topic(root)
    stored = fill_with_files(root, shape, make_records(size.pool)) / MB
    params: dict[str, Param] = {"files": shape.files, "MB": round(stored, 1)}
    kernels: list[tuple[float, float]] = []
    rates: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    for _ in range(size.turns):
        wall, cpu = run_fresh(merge_barely, live_files(root), place / "bare")
        kernels.append((stored / wall, stored / cpu))
        for engine, measured in rates.items():
            measured.append(stored / _time_job(root, place / "copy", engine, shape.files) / (os.cpu_count() or 1))
    shutil.rmtree(root)
    bases = [by_wall for by_wall, _ in kernels]
    row = over_turns(bases, "MB/s", name="baseline.compaction", params={**params, "cores": 1})
    row.also["MB/s of processor time"] = sum(by_cpu for _, by_cpu in kernels) / len(kernels)
    yield row
    for engine, measured in rates.items():
        row = over_turns(measured, "MB/s a core", name="jobs-compaction", params={**params, "engine": engine})
        yield judge(beside(row, "pyarrow alone, one core", measured, bases), KERNEL)


def _time_job(root: Path, copy: Path, engine: str, files: int) -> float:
    copy_root(root, copy)
    ran = run_timed(compaction.main, copy, "--engine", engine, "--min-age", "0s")
    shutil.rmtree(copy)
    if ran.total("files_merged") != files or ran.total("given_up"):
        raise RuntimeError(f"of {files} files {ran.topics} were merged")
    return ran.seconds


def merge_barely(partitions: Sequence[Sequence[Path]], place: Path) -> tuple[float, float]:
    """Seconds, and seconds of the processor. The files of each partition become one."""
    pa.set_cpu_count(1)
    place.mkdir(exist_ok=True)
    began, worked = perf_counter(), process_time()
    for number, files in enumerate(partitions):
        table = pa.concat_tables([pq.ParquetFile(file).read(use_threads=False) for file in files])
        pq.write_table(
            table,
            place / f"{number}.parquet",
            row_group_size=ROW_GROUP,
            compression=_CODEC.name,
            compression_level=_CODEC.level,
            use_dictionary=False,
            write_statistics=["offset", "timestamp"],
            store_schema=False,
        )
    return perf_counter() - began, process_time() - worked
