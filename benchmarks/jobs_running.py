"""A job run in this process and timed; and the Spark session beside it, whose start is no part of that time."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any


@dataclass(frozen=True, slots=True)
class Ran:
    """`topics` is what the job's summary says of each."""

    seconds: float
    topics: Mapping[str, Mapping[str, int]]

    def total(self, count: str) -> int:
        return sum(counts[count] for counts in self.topics.values())


def run_timed(main: Callable[[list[str]], int], root: Path, *options: str) -> Ran:
    """All of it but starting Python and Spark: loading the tables, planning, working, committing, saying so."""
    said = io.StringIO()
    with redirect_stdout(said):
        began = perf_counter()
        code = main(["--data", str(root), "--all", *options])
        seconds = perf_counter() - began
    summary = json.loads(said.getvalue().splitlines()[-1])
    if code:
        raise RuntimeError(f"the job ended with {code}: {summary}")
    return Ran(seconds, summary["topics"])


@contextmanager
def spark_session(place: Path) -> Generator[Any]:
    """The session that there is already, else one as a job would start it; it has run something already."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only who asks for Spark needs it

    active = SparkSession.getActiveSession()
    session = active or start_session(place)
    try:
        run_something(session)
        yield session
    finally:
        if active is None:
            session.stop()


def start_session(place: Path) -> Any:
    """A new one. What its JVM has to say, which is much, goes to a file, and is told where it does not start."""
    from jobs.spark.session import build_session  # noqa: PLC0415

    log, ours = place / "spark.log", os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        return build_session("lakelog benchmarks")
    except Exception as error:
        raise RuntimeError(f"Spark does not start\n{log.read_text(errors='replace')}") from error
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def run_something(session: Any) -> None:
    """A task for each core, so that the Python workers are there."""
    context = session.sparkContext
    context.parallelize(range(context.defaultParallelism), context.defaultParallelism).map(_import_log).collect()


def _import_log(_: int) -> str:
    from delta_log.maintenance.compaction import merge_files  # noqa: PLC0415 - it is the import that is wanted

    return merge_files.__name__
