"""How long a job takes to begin."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.http_servers import PROJECT
from benchmarks.jobs_compaction import ENGINES
from benchmarks.jobs_running import run_something, start_session
from benchmarks.jobs_tables import Shape, fill_with_files, make_topic
from benchmarks.processes import run_fresh
from benchmarks.records import make_records
from benchmarks.rows import Row, over_turns
from benchmarks.sizes import Size

_SHAPE: Final = Shape(16, 100)


def run(place: Path, size: Size) -> Iterator[Row]:
    """A compaction of a topic of 16 files of 100 records, in a process of its own: there is nearly nothing to do.

    `jobs-start`: seconds from starting the process to the first line of its plan, and beside that to its end; with
    Spark a session is started in between, as the plan needs none. `jobs-start.session`: seconds that this takes by
    itself, in a process of its own, Python's imports of it included, beside the first task on each core; `cold` is the
    first of this run, whatever the machine still had in memory, and `warm` those that follow it.
    """
    for engine in ENGINES:
        starts = [_start(place / f"root-{engine}-{turn}", engine) for turn in range(size.turns)]
        row = over_turns([planned for planned, _ in starts], "s", name="jobs-start", params={"engine": engine})
        row.also["s until it is done"] = over_turns([done for _, done in starts], "s", name="").value
        yield row
    sessions = [run_fresh(_start_session, place) for _ in range(size.turns)]
    for state, some in (("cold", sessions[:1]), ("warm", sessions[1:])):
        if some:
            row = over_turns([there for there, _ in some], "s", name="jobs-start.session", params={"state": state})
            row.also["s first tasks"] = over_turns([first for _, first in some], "s", name="").value
            yield row


def _start(root: Path, engine: str) -> tuple[float, float]:
    """Seconds to the first line, and to the end."""
    make_topic(root)
    fill_with_files(root, _SHAPE, make_records(1_000))
    command = [sys.executable, "-m", "jobs.compaction", "--data", str(root), "--all", "--min-age", "0s"]
    with (root.parent / "spark.log").open("wb") as log:
        began = perf_counter()
        process = subprocess.Popen(
            [*command, "--engine", engine], cwd=PROJECT, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            lines = [process.stdout.readline()] if process.stdout is not None else []
            planned = perf_counter() - began
            rest, _ = process.communicate()
        except BaseException:
            process.kill()
            process.communicate()
            raise
    done = perf_counter() - began
    if process.returncode or not lines or '"files_merged": 16' not in rest:
        raise RuntimeError(f"the job ended with {process.returncode}: {lines} {rest}")
    return planned, done


def _start_session(place: Path) -> tuple[float, float]:
    began = perf_counter()
    session = start_session(place)
    there = perf_counter() - began
    began = perf_counter()
    run_something(session)
    first = perf_counter() - began
    session.stop()
    return there, first
