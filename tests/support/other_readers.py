"""The same rows through everybody's eyes: the log itself, delta-rs, DataFusion, Polars and DuckDB."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from delta_log import Log, ProducerStamp, Record
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.maintenance.history import clean_history
from delta_log.model.schema import FILE_SCHEMA
from delta_log.reader import Reading

Rows = list[dict[str, Any]]

COLUMNS = ("partition", *FILE_SCHEMA.names)
HEADERS = [None, (), (("a", b"1"),), (("a", b""), ("a", None), ("ü", b"\0\xff"))]
START = 1_700_000_000_000


def write(log: Log, topic: str, rounds: int = 3, *, first: int = 0) -> None:
    """Every kind of record there is, one commit a round, in rows and in Arrow."""
    for number in range(first, first + rounds):
        at = START + number * 1000
        values = [b"v%d" % number, b"", None, b"\0\xff" * 50]
        keys = [b"k%d" % number, None, b"", b"\xff"]
        records = [Record(values[n], keys[n], at + n, HEADERS[n]) for n in range(4)]
        log.append(topic, records)
        log.append(topic, [Record(b"stamped", b"k", at)], producer=ProducerStamp(f"from {first}", 0, number - first))
        stamps = pa.array([at * 1000 + 1, at * 1000 + 999], pa.timestamp("us", tz="UTC"))
        log.append_arrow(topic, pa.table({"key": [b"a", b"b"], "value": [b"micro", None], "timestamp": stamps}))
        log.flush(topic)


def as_rows(table: Any) -> Rows:
    """In order of partition and offset, columns by name, headers as pairs."""
    rows = pa.table(table).select(list(COLUMNS)).to_pylist()
    for row in rows:
        if row["headers"] is not None:
            row["headers"] = [(header["key"], header["value"]) for header in row["headers"]]
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def by_log(log: Reading, topic: str) -> Rows:
    """As a consumer reads them, offset by offset."""
    return list(_rows_of_log(log, topic))


def _rows_of_log(log: Reading, topic: str) -> Iterator[dict[str, Any]]:
    for partition in range(log.describe_topic(topic).partitions):
        known = log.offsets(topic, partition)
        position = known.log_start_offset
        while position < known.end_offset:
            fetched = log.read(topic, partition, position, columns=FILE_SCHEMA.names)
            number = pa.repeat(pa.scalar(partition, pa.int32()), fetched.count)
            yield from as_rows(fetched.table().append_column("partition", number))
            position = fetched.next_offset


def by_delta_rs(location: str, version: int | None = None) -> Rows:
    return as_rows(DeltaTable(location, version=version).to_pyarrow_table())


def by_datafusion(location: str, where: str = "true") -> Rows:
    query = QueryBuilder().register("t", DeltaTable(location)).execute(f"SELECT * FROM t WHERE {where}")
    return as_rows(pa.table(query.read_all()))


def by_polars(location: str) -> Rows:
    return as_rows(pl.scan_delta(location).collect().to_arrow())


def by_duckdb(location: str) -> Rows:
    files = DeltaTable(location).file_uris()
    if not files:
        return []
    with duckdb.connect() as connection:
        read = connection.sql("SELECT * FROM read_parquet($files, hive_partitioning=true)", params={"files": files})
        return as_rows(read.to_arrow_table())


READERS: dict[str, Callable[[str], Rows]] = {
    "delta-rs": by_delta_rs,
    "DataFusion": by_datafusion,
    "Polars": by_polars,
    "DuckDB": by_duckdb,
}


def shorten_log(log: Log, topic: str) -> None:
    """A checkpoint, a commit behind it, and every entry before it gone: as it is when the history has passed."""
    live = log._running.catalog.live(topic)
    write_checkpoint(live.table)
    log.alter_topic(topic, {"retention.ms": -1})
    long_ago = time.time() - 72 * 3600
    for entry in Path(log.table_location(topic), "_delta_log").iterdir():
        os.utime(entry, (long_ago, long_ago))
    assert clean_history(live, time.time_ns() // 1_000_000) > 0
