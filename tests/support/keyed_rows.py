"""Ledgers for tests: two tables, one unit over both, and what every reader of Delta makes of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from delta_log import Ledger, LedgerTable, Log
from delta_log.maintenance.compaction import keyed_files as ledger_compaction
from delta_log.model.schema import TIMESTAMP
from delta_log.records.keyed_table import Row
from delta_log.topics.topic_state import TopicState
from tests.architecture.project_files import ROOT

#: As the place in a book: whose, where, since when.
MARKS = LedgerTable(
    "__marks",
    pa.schema(
        [
            ("reader", pa.string()),
            ("book", pa.int32()),
            ("page", pa.int64()),
            ("note", pa.string()),
            ("at", TIMESTAMP),
            ("commit_seq", pa.int64()),
        ]
    ),
    ("reader", "book"),
    ("page", "note", "at"),
)
#: One column of a key, the place in the middle, and every type there is.
READERS = LedgerTable(
    "__readers",
    pa.schema(
        [
            ("name", pa.string()),
            ("commit_seq", pa.int64()),
            ("data", pa.binary()),
            ("active", pa.bool_()),
            ("turn", pa.int64()),
        ]
    ),
    ("name",),
    ("data", "active", "turn"),
)
TABLES = (MARKS, READERS)
_PAGE = ROOT / "docs/how-to/read-topic-tables.md"
#: The view of it that the documentation gives.
COMMITTED = re.findall(r'^VIEW = """(.*?)"""', _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)[0]


def mark(reader: str, book: int, page: int | None, note: str | None = "", at: int | None = 0) -> tuple[str, Row]:
    return "__marks", (reader, book, page, note, at)


def no_mark(reader: str, book: int) -> tuple[str, Row]:
    return mark(reader, book, None, None, None)


def reader(name: str, turn: int | None, data: bytes | None = b"", *, active: bool | None = True) -> tuple[str, Row]:
    return "__readers", (name, data, active, turn)


def no_reader(name: str) -> tuple[str, Row]:
    return reader(name, None, None, active=None)


def live_of(log: Log, name: str) -> TopicState:
    live = log._running.catalog.find(name)
    assert live is not None
    return live


def compact(log: Log, name: str) -> int:
    """Compact a table, however little there is to gain."""
    with mock.patch.multiple(ledger_compaction, KEPT_FILES=1, KEPT_ROWS=1):
        return log._running.upkeep.fold(live_of(log, name))


def stored(log: Log, name: str) -> list[dict[str, Any]]:
    """The rows of a table as they lie there, those that do not count any more among them."""
    live = live_of(log, name)
    store, directory = live.table.store, live.table.directory
    files = [file.path for file in live.table.snapshot.files(-1)]
    tables = [pa.table(pl.read_parquet(store.read(f"{directory}/{path}")).to_arrow()) for path in files]
    return [row for table in tables for row in table.to_pylist()]


def state(ledger: Ledger) -> dict[str, list[Row]]:
    return {table.name: ledger.load(table.name) for table in TABLES}


def is_table(location: Path) -> bool:
    """From its first log entry on: a death while it was being made may leave its directories, and no table in them."""
    return any((location / "_delta_log").glob("*"))


def latest_sql(table: LedgerTable, of: str, qualified: str = "n") -> str:
    """The rows that count, as any SQL has it: no word of it needs quotes."""
    key = ", ".join(f"{qualified}.{name}" for name in table.key)
    content = " OR ".join(f"o.{name} IS NOT NULL" for name in table.content)
    return (
        f"SELECT o.* FROM {of} AS o JOIN (SELECT max({qualified}.commit_seq) AS commit_seq FROM {of} AS {qualified} "
        f"GROUP BY {key}) AS newest ON o.commit_seq = newest.commit_seq WHERE {content} ORDER BY o.commit_seq"
    )


def by_duckdb(location: str, table: LedgerTable) -> list[Row]:
    files = DeltaTable(location).file_uris()
    if not files:
        return []
    with duckdb.connect() as connection:
        connection.execute("CREATE VIEW t AS SELECT * FROM read_parquet(?)".replace("?", repr(files)))
        return as_rows(connection.sql(latest_sql(table, "t")).to_arrow_table(), table)


def by_datafusion(location: str, table: LedgerTable) -> list[Row]:
    query = QueryBuilder().register("t", DeltaTable(location)).execute(latest_sql(table, "t"))
    return as_rows(pa.table(query.read_all()), table)


def by_delta_rs(location: str, table: LedgerTable) -> list[Row]:
    rows = DeltaTable(location).to_pyarrow_table().sort_by("commit_seq")
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows.to_pylist():
        key = tuple(row[name] for name in table.key)
        found.pop(key, None)
        found[key] = row
    alive = [row for row in found.values() if any(row[name] is not None for name in table.content)]
    return as_rows(pa.Table.from_pylist(alive, schema=rows.schema), table)


def as_rows(rows: pa.Table, table: LedgerTable) -> list[Row]:
    """As a ledger gives them: without their places, times in milliseconds."""
    columns: list[list[Any]] = []
    for field in table.schema:
        if field.name != "commit_seq":
            column = rows.column(field.name)
            if field.type == TIMESTAMP:
                whole = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_pylist()
                columns.append([None if value is None else value // 1000 for value in whole])
            else:
                columns.append(column.cast(field.type).to_pylist())
    return list(zip(*columns, strict=True))


READERS_OF_DELTA = {"delta-rs": by_delta_rs, "DataFusion": by_datafusion, "DuckDB": by_duckdb}
