"""Retention over a table of very many files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.jobs_running import run_timed
from benchmarks.jobs_tables import (
    HOUR_MS,
    PARTITIONS,
    TOPIC,
    alter_topic,
    commit_files,
    describe_file,
    make_topic,
    now_ms,
)
from benchmarks.rows import Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size
from delta_log.model.types import DataFile
from jobs.tables import retention

SECONDS: Final = Target("value", "<=", 10.0)
_RECORDS: Final = 1_000
_FILE_BYTES: Final = 20_000
_KEPT_MS: Final = 7 * 24 * HOUR_MS
#: What an hourly run finds, as a share of all files.
_HOURLY: Final = 0.01
_EMPTY: Final = "_empty"


def run(place: Path, size: Size) -> Iterator[Row]:
    """`jobs-retention`: seconds of the whole job over one topic of 4 partitions, with the local engine.

    From loading the table to the commit in which files leave it, with the plan printed; the start of Python not
    counted. Once the oldest hundredth is due, as an hourly run finds it, and once all is. The baseline is the same
    with `--dry-run`: the plan alone. The table is made up: its log names the files by one commit, with a checkpoint
    behind it, and those that lie there are links to an empty one, as retention opens none.
    """
    root = place / "root"
    make_topic(root, retention_ms=_KEPT_MS)
    due = max(PARTITIONS, round(size.files_retained * _HOURLY))
    _fill(root, size.files_retained, due)
    yield _retain(root, size, due)
    alter_topic(root, retention_ms=HOUR_MS // 2)
    yield _retain(root, size, size.files_retained)


def _fill(root: Path, count: int, due: int) -> None:
    per_partition, due_each, table = count // PARTITIONS, due // PARTITIONS, root / "topics" / TOPIC
    now, files = now_ms(), list[DataFile]()
    for partition in range(PARTITIONS):
        (table / f"partition={partition}").mkdir()
        (table / f"partition={partition}" / _EMPTY).touch()
        for number in range(per_partition):
            at_ms = now - HOUR_MS - (_KEPT_MS if number < due_each else 0)
            files.append(describe_file(partition, number * _RECORDS, _RECORDS, _FILE_BYTES, at_ms))
    for file in files:
        os.link(table / f"partition={file.partition}" / _EMPTY, table / file.path)
    commit_files(root, TOPIC, files, checkpoint=True)


def _retain(root: Path, size: Size, due: int) -> Row:
    log = root / "topics" / TOPIC / "_delta_log"
    before = set(log.iterdir())
    planned: list[float] = []
    retained: list[float] = []
    for _ in range(size.turns):
        planned.append(run_timed(retention.main, root, "--engine", "local", "--dry-run").seconds)
        ran = run_timed(retention.main, root, "--engine", "local")
        if ran.total("files") != due:
            raise RuntimeError(f"of {due} files that were due, {ran.topics} left")
        retained.append(ran.seconds)
        for path in set(log.iterdir()) - before:
            path.unlink()
    params = {"files": size.files_retained, "due": due}
    row = over_turns(retained, "s", name="jobs-retention", params=params)
    return judge(beside(row, "its plan alone", retained, planned), SECONDS)
