"""Commits that append nothing, one change each: rewrite, removal, log-start move.

The owner's background tasks and the jobs beside it use them alike. Files are written first and checked; the commit
is planned against the newest snapshot and gives up if a file that it wants to replace is gone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from delta_log.delta.actions import Action, Add, CommitInfo, Remove, Txn, order_column
from delta_log.delta.conflicts import TOPIC_ID, Kind
from delta_log.delta.parquet import encode_parquet, read_file, time_bounds
from delta_log.delta.snapshot import Snapshot, start_txn
from delta_log.delta.table import Table
from delta_log.delta.topic_commits import DELETED
from delta_log.model.errors import Corruption, LakelogError, PlanOutdated
from delta_log.model.file_bin import Bin
from delta_log.model.schema import integer
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import DataFile
from delta_log.records.arrow_columns import strictly_rising
from delta_log.runtime.gil import yield_gil
from delta_log.runtime.syscalls import Probe, no_probe

Clock = Callable[[], int]
#: Part of the name of files that a job wrote.
JOBS_MARK: Final = "-job-"


def merge_files(
    table: Table,
    topic_id: str,
    bin_: Bin,
    schema: pa.Schema,
    codec: ParquetCodec,
    clock_ms: Clock,
    probe: Probe = no_probe,
) -> int:
    """Merge many files into one, with the same rows in the same order; returns the version."""
    rows = read_rows(table, bin_.inputs, schema)
    offsets = rows.column("offset").combine_chunks()
    if rows.num_rows != bin_.count or not strictly_rising(offsets):
        raise Corruption(table.path(bin_.inputs[0].path), "its rows are not those that the table's log names")
    low = min(file.min_timestamp_ms for file in bin_.inputs)
    high = max(file.max_timestamp_ms for file in bin_.inputs)
    file = write_rows(table, rows, bin_.partition, codec, low, high, bin_.modified_ms)
    probe("fold.file_written")
    return replace_files(table, topic_id, bin_.inputs, [file], clock_ms, data_change=False)


def cut_file(
    table: Table, topic_id: str, file: DataFile, before: int, schema: pa.Schema, codec: ParquetCodec, clock_ms: Clock
) -> int:
    """Rewrite a file without its rows below an offset."""
    rows = _read_current(table, file, schema)
    kept = rows.filter(pc.greater_equal(rows.column("offset"), integer(before)))
    fresh: list[DataFile] = []
    if kept.num_rows:
        low, high = time_bounds(kept)
        fresh = [write_rows(table, kept, file.partition, codec, low, high, file.modified_ms)]
    return replace_files(table, topic_id, [file], fresh, clock_ms, data_change=True)


def replace_rows(
    table: Table,
    topic_id: str,
    old: Sequence[DataFile],
    rows: pa.Table,
    codec: ParquetCodec,
    clock_ms: Clock,
    probe: Probe = no_probe,
) -> int:
    """In an internal table: replace the files `old` by `rows`, which may be empty."""
    fresh: list[DataFile] = []
    if rows.num_rows:
        fresh = [write_rows(table, rows, -1, codec, 0, 0, min(file.modified_ms for file in old))]
    probe("fold.file_written")
    return replace_files(table, topic_id, old, fresh, clock_ms, data_change=True)


def replace_files(
    table: Table,
    topic_id: str,
    old: Sequence[DataFile],
    fresh: Sequence[DataFile],
    clock_ms: Clock,
    *,
    data_change: bool,
    also: Callable[[Snapshot], Sequence[Txn]] = lambda _: (),
) -> int:
    """Replace the files `old` by `fresh` in a commit; PlanOutdated if one of `old` left the table meanwhile.

    The actions of `also` are stored with it; it may refuse the snapshot.
    """
    commit_id = uuid.uuid4().hex

    def plan(snapshot: Snapshot) -> list[Action]:
        _check_current(table, topic_id, snapshot, old)
        noted = also(snapshot)
        info = CommitInfo(commit_id, clock_ms(), "OPTIMIZE", read_version=snapshot.version, facts={"topicId": topic_id})
        return [
            info,
            *(Add(file, data_change) for file in fresh),
            *_removes(old, clock_ms(), data_change=data_change),
            *noted,
        ]

    try:
        return table.commit(Kind.REWRITE, plan)
    except LakelogError as error:
        if error.outcome == LakelogError.outcome:
            _delete_fresh(table, fresh)
        raise


def remove_files(table: Table, topic_id: str, files: Sequence[DataFile], clock_ms: Clock) -> int:
    """Remove the files that are still in the table; returns the version."""
    return take_out_files(table, topic_id, files, clock_ms)[0]


def take_out_files(
    table: Table, topic_id: str, files: Sequence[DataFile], clock_ms: Clock
) -> tuple[int, list[DataFile]]:
    """Like `remove_files`; returns the version, and the files that this commit removed."""
    commit_id = uuid.uuid4().hex
    there: list[DataFile] = []

    def plan(snapshot: Snapshot) -> list[Action]:
        _check_current(table, topic_id, snapshot, ())
        there[:] = [file for file in files if snapshot.has_file(file.path)]
        if not there:
            return []
        info = CommitInfo(commit_id, clock_ms(), "DELETE", read_version=snapshot.version, facts={"topicId": topic_id})
        return [info, *_removes(there, clock_ms(), data_change=True)]

    return table.commit(Kind.REMOVAL, plan), there


def move_log_start(table: Table, topic_id: str, partition: int, offset: int, clock_ms: Clock) -> int:
    """Commit a later log start offset; one that is further already is kept."""
    return move_log_starts(table, topic_id, {partition: offset}, clock_ms)


def move_log_starts(
    table: Table,
    topic_id: str,
    offsets: Mapping[int, int],
    clock_ms: Clock,
    check: Callable[[Snapshot], None] = lambda _: None,
) -> int:
    """Like `move_log_start`, for many partitions in one commit. `check` may refuse the snapshot."""
    commit_id = uuid.uuid4().hex

    def plan(snapshot: Snapshot) -> list[Action]:
        _check_current(table, topic_id, snapshot, ())
        check(snapshot)
        moved = [Txn(start_txn(index), to) for index, to in offsets.items() if snapshot.start(index) < to]
        if not moved:
            return []
        info = CommitInfo(
            commit_id, clock_ms(), "LOG START", read_version=snapshot.version, facts={"topicId": topic_id}
        )
        return [info, *moved]

    return table.commit(Kind.LOG_START, plan)


def read_rows(table: Table, files: Sequence[DataFile], schema: pa.Schema) -> pa.Table:
    """Read the rows of some files; PlanOutdated if one of them left the table."""
    return pa.concat_tables(yield_gil(_read_current(table, file, schema) for file in files))


def _read_current(table: Table, file: DataFile, schema: pa.Schema) -> pa.Table:
    """Read a file; if it is missing, PlanOutdated if it has left the table, else Corruption."""
    path = table.path(file.path)
    try:
        return read_file(table.store, path, schema)
    except FileNotFoundError as error:
        table.follow(Kind.REWRITE)
        if table.snapshot.has_file(file.path):
            raise Corruption(path, "it is missing") from error
        raise PlanOutdated(table.name, f"{file.path} has left the table") from error


def _delete_fresh(table: Table, fresh: Sequence[DataFile]) -> None:
    """Delete new files whose commit certainly failed, as nothing refers to them."""
    for file in fresh:
        with suppress(LakelogError):
            table.store.delete(table.path(file.path))


def _check_current(table: Table, topic_id: str, snapshot: Snapshot, needed: Sequence[DataFile]) -> None:
    if snapshot.configuration.get(TOPIC_ID) != topic_id or DELETED in snapshot.configuration:
        raise PlanOutdated(table.name, "the topic was deleted or created anew")
    for file in needed:
        if not snapshot.has_file(file.path):
            raise PlanOutdated(table.name, f"{file.path} has left the table")


def _removes(files: Sequence[DataFile], now_ms: int, *, data_change: bool) -> list[Action]:
    return [Remove(file.path, file.partition, file.size, now_ms, data_change) for file in files]


def write_rows(
    table: Table, rows: pa.Table, partition: int, codec: ParquetCodec, low: int, high: int, modified_ms: int
) -> DataFile:
    """Write ordered rows to a new file, which no commit names yet."""
    order = order_column(partition)
    places = rows.column(order)
    base, last = places[0].as_py(), places[rows.num_rows - 1].as_py()
    name = f"{base:020d}-{rewritten_name(table.epoch)}.parquet"
    path = f"partition={partition}/{name}" if partition >= 0 else name
    data = encode_parquet(rows, codec, ordered_by=(order, "timestamp"))
    table.store.put(table.path(path), data)
    return DataFile(path, partition, base, last, rows.num_rows, len(data), low, high, modified_ms)


def rewritten_name(epoch: int | None) -> str:
    """A unique name for a file that replaces others, written by an owner, or by a job beside it."""
    return f"{'job' if epoch is None else f'{epoch}-fold'}-{uuid.uuid4().hex}"
