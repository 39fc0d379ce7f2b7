"""Topics whose tables are as a job finds them, without the hours in which a server would have made them.

The files are written by the code that writes every file of a topic, and named by one commit of the table's own log;
what is made up is only that all of them came at once. A root is copied by links, as its files are never changed.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.baselines import file_table
from delta_log.delta.actions import Action, Add, CommitInfo, Txn
from delta_log.delta.conflicts import TOPIC_ID, Kind
from delta_log.delta.parquet import encode_parquet
from delta_log.delta.snapshot import Snapshot, end_txn
from delta_log.delta.table import Table
from delta_log.delta.topic_commits import Author, plan_alteration
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.log import Log
from delta_log.model.schema import TIMESTAMP
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import DataFile, Record
from delta_log.stores import LocalStore

TOPIC: Final = "orders"
PARTITIONS: Final = 4
HOUR_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True)
class Shape:
    """So many files, shared out to the partitions, of so many records each."""

    files: int
    records: int


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def make_topic(root: Path, topic: str = TOPIC, **configs: object) -> None:
    """`retention_ms=…` is the setting `retention.ms`."""
    with Log.open(root) as log:
        log.create_topic(topic, PARTITIONS, config={name.replace("_", "."): value for name, value in configs.items()})


def alter_topic(root: Path, topic: str = TOPIC, **configs: object) -> None:
    """As a server would do it, without starting one on so many files."""
    changes = {name.replace("_", "."): str(value) for name, value in configs.items()}
    table = _load(root, topic)

    def plan(snapshot: Snapshot) -> list[Action]:
        author = Author(uuid.uuid4().hex, now_ms(), 1)
        return plan_alteration(snapshot, topic, snapshot.configuration[TOPIC_ID], changes, {}, author)

    table.commit(Kind.CONFIG, plan)


def fill_with_files(root: Path, shape: Shape, records: Sequence[Record], *, keys: int | None = None) -> int:
    """Write parquet files of `records`, again and again, into a topic of four partitions; returns their bytes.

    Each record gets another key, of `keys` different ones, where these are said.
    """
    rows = file_table([record.key for record in records], [record.value for record in records])
    random = np.random.default_rng(7)
    files: list[DataFile] = []
    for partition in range(PARTITIONS):
        for number in range(max(1, shape.files // PARTITIONS)):
            base = number * shape.records
            taken = pa.concat_tables(_pieces(rows, base % rows.num_rows, shape.records)).combine_chunks()
            if keys is not None:
                taken = taken.set_column(2, rows.field(2), _make_keys(random.integers(keys, size=shape.records)))
            files.append(_write_file(root, taken, partition, base))
    commit_files(root, TOPIC, files)
    return sum(file.size for file in files)


def commit_files(root: Path, topic: str, files: Sequence[DataFile], *, checkpoint: bool = False) -> None:
    """Have a topic's table name files that are there, in one commit."""
    table = _load(root, topic)
    ends: dict[int, int] = {}
    for file in files:
        ends[file.partition] = max(ends.get(file.partition, 0), file.next_offset)

    def plan(snapshot: Snapshot) -> list[Action]:
        info = CommitInfo(uuid.uuid4().hex, now_ms(), "WRITE", read_version=snapshot.version)
        return [info, *map(Add, files), *(Txn(end_txn(partition), end) for partition, end in ends.items())]

    table.commit(Kind.APPEND, plan)
    if checkpoint:
        write_checkpoint(table)


def copy_root(root: Path, copy: Path) -> Path:
    """Tables by links; what lies beside them, which is changed in place, byte by byte."""
    tables = root / "topics"

    def copied(source: str, target: str) -> str:
        if tables in Path(source).parents:
            os.link(source, target)
            return target
        return shutil.copy2(source, target)

    shutil.copytree(root, copy, copy_function=copied)
    return copy


def live_files(root: Path, topic: str = TOPIC) -> list[list[Path]]:
    """Of each partition that has any, in the order of their offsets."""
    table = _load(root, topic)
    found = [[root / table.path(file.path) for file in table.snapshot.files(index)] for index in range(PARTITIONS)]
    return [paths for paths in found if paths]


def describe_file(partition: int, base: int, count: int, size: int, at_ms: int) -> DataFile:
    """As the table's log names it: of records that came at one moment."""
    path = f"partition={partition}/{base:020d}-1-{uuid.uuid4().hex}.parquet"
    return DataFile(path, partition, base, base + count - 1, count, size, at_ms, at_ms, at_ms)


def _write_file(root: Path, rows: pa.Table, partition: int, base: int) -> DataFile:
    """With offsets from `base` on, all of an hour ago."""
    count, at_ms = rows.num_rows, now_ms() - HOUR_MS
    rows = rows.set_column(0, rows.field(0), pa.array(range(base, base + count), pa.int64()))
    rows = rows.set_column(1, rows.field(1), pa.repeat(pa.scalar(at_ms * 1000, TIMESTAMP), count))
    data = encode_parquet(rows, ParquetCodec(), ordered_by=("offset", "timestamp"))
    file = describe_file(partition, base, count, len(data), at_ms)
    path = root / "topics" / TOPIC / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return file


def _make_keys(numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array([b"customer-%07d" % number for number in numbers.tolist()], pa.binary())


def _load(root: Path, topic: str) -> Table:
    table = Table(LocalStore(root), f"topics/{topic}")
    table.load()
    return table


def _pieces(rows: pa.Table, begin: int, count: int) -> Iterator[pa.Table]:
    while count > 0:
        piece = rows.slice(begin, count)
        yield piece
        begin, count = 0, count - piece.num_rows
