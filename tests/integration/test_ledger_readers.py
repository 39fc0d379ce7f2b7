"""The tables of ledgers as others read them: the documented view gives what the ledger loads, whatever lies there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from consumer_groups.coordinator.tables import OFFSETS
from delta_log import Ledger, Log, Settings
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.maintenance import background as upkeep
from delta_log.maintenance.compaction import keyed_files as ledger_compaction
from delta_log.maintenance.history import clean_history
from delta_log.records.keyed_table import Row
from tests.support.keyed_rows import (
    COMMITTED,
    READERS_OF_DELTA,
    TABLES,
    as_rows,
    compact,
    live_of,
    mark,
    no_mark,
    no_reader,
    reader,
)
from tests.support.logs import DEADLINE_S
from tests.support.marking import expected, turns_of, unit


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path / "root", settings=Settings(upkeep=False)) as opened:
        yield opened


def location(log: Log, name: str) -> str:
    return f"{log.location}/topics/{name}"


def compact_and_forget(log: Log) -> None:
    """All that the upkeep does to a table, at once."""
    for table in TABLES:
        live = live_of(log, table.name)
        compact(log, table.name)
        write_checkpoint(live.table)
        clean_history(live, 1 << 50)


def everybody_reads(log: Log, wanted: dict[str, list[Row]]) -> bool:
    ledger = log.open_ledger(TABLES)
    for table in TABLES:
        assert ledger.load(table.name) == wanted[table.name]
        for name, by in READERS_OF_DELTA.items():
            assert by(location(log, table.name), table) == wanted[table.name], name
    return True


def test_every_reader_finds_what_the_ledger_loads(log: Log):
    """Between compactions, with tombstones of what lies in older files, with a checkpoint and a short log."""
    ledger = log.open_ledger(TABLES)
    for turn in range(1, 60):
        ledger.append(unit("ann", turn))
        if turn % 6 == 0:
            log.flush()
        if turn % 25 == 0:
            compact_and_forget(log)
    log.flush()
    assert everybody_reads(log, expected("ann", 59))


def test_every_reader_finds_nothing_where_all_was_taken_away(log: Log):
    ledger = log.open_ledger(TABLES)
    ledger.append([mark("ann", 1, 1), mark("ann", 2, 2), reader("ann", 1)])
    log.flush()
    ledger.append([no_mark("ann", 1), no_mark("ann", 2), no_reader("ann")])
    log.flush()
    nothing: dict[str, list[Row]] = {table.name: [] for table in TABLES}
    assert everybody_reads(log, nothing)
    compact_and_forget(log)
    assert everybody_reads(log, nothing)


def test_the_documented_view_of_committed_offsets_runs_as_it_stands(log: Log):
    ledger = log.open_ledger([OFFSETS])
    for number in range(30):
        rows = [("g", "t", "id", number % 3, number, f"m{number}", number, 1_800_000_000_000 + number)]
        rows.append(("other", "t", f"id{number % 2}", 0, 0, "", 0, 1))
        if number % 10 == 9:
            rows.append(("g", "t", "id", 2, None, None, None, None))
        ledger.append([("__consumer_offsets", row) for row in rows])
        log.flush()
    wanted = ledger.load("__consumer_offsets")
    assert {row[:5] for row in wanted} == {
        ("g", "t", "id", 0, 27),
        ("g", "t", "id", 1, 28),
        ("other", "t", "id0", 0, 0),
        ("other", "t", "id1", 0, 0),
    }
    for _ in range(2):
        table = DeltaTable(location(log, "__consumer_offsets"))
        with duckdb.connect() as connection:
            connection.execute(f"CREATE VIEW consumer_offsets AS SELECT * FROM read_parquet({table.file_uris()})")
            connection.execute(f"CREATE VIEW committed AS {COMMITTED}")
            found = connection.sql("SELECT * FROM committed ORDER BY commit_seq").to_arrow_table()
        assert as_rows(found, OFFSETS) == wanted
        query = QueryBuilder().register("consumer_offsets", table).execute(f"{COMMITTED} ORDER BY o.commit_seq")
        rows = pa.table(query.read_all())
        assert as_rows(rows, OFFSETS) == wanted
        assert rows.schema.names == OFFSETS.schema.names
        compact(log, "__consumer_offsets")


def folds(log: Log) -> int:
    return {job.job: job.succeeded for job in log.statistics().jobs}["fold"]


class Busy:
    """Two who write as fast as they can, and one who does all the upkeep there is, until it is over."""

    def __init__(self, log: Log, ledger: Ledger) -> None:
        self.log, self.ledger = log, ledger
        self.broken: list[BaseException] = []
        self._stop = threading.Event()
        jobs = (lambda: self._write("bob"), lambda: self._write("cy"), self._care)
        self._threads = [threading.Thread(target=self._try, args=(job,)) for job in jobs]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _try(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:  # noqa: BLE001 - for the test to see
            self.broken.append(error)

    def _write(self, name: str) -> None:
        turn = 0
        while not self._stop.is_set():
            turn += 1
            self.ledger.append(unit(name, turn))

    def _care(self) -> None:
        while not self._stop.is_set():
            self.log.flush()
            self.log.run_upkeep()


@pytest.fixture
def _eager_upkeep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_compaction, "KEPT_FILES", 2)
    monkeypatch.setattr(ledger_compaction, "KEPT_ROWS", 50)
    monkeypatch.setattr(upkeep, "CLEAN_EVERY_S", 0.0)


@pytest.mark.usefixtures("_eager_upkeep")
def test_whoever_reads_beside_a_busy_writer_sees_whole_turns_that_only_rise(log: Log):
    """Rows come, tables are compacted and cleaned up all the time; a reader of SQL notices nothing of it."""
    ledger = log.open_ledger(TABLES)
    ledger.append(unit("ann", 1))
    log.flush()
    busy, seen = Busy(log, ledger), dict[str, int]()
    deadline = time.monotonic() + 4 * DEADLINE_S
    with busy:
        while seen.get("bob", 0) < 50 or folds(log) < 5:
            assert time.monotonic() < deadline, f"only {seen} and {folds(log)} compactions"
            found = READERS_OF_DELTA["DuckDB"](location(log, "__marks"), TABLES[0])
            turns = {row[0]: row[2] for row in found if row[1] == 0}
            for name, turn in turns.items():
                assert turn >= seen.get(name, 0)
                assert [row for row in found if row[0] == name] == expected(name, turn)["__marks"]
            assert turns.keys() >= seen.keys()
            seen = turns
            loaded = turns_of(ledger)
            assert all(loaded[name] >= turn for name, turn in seen.items())
    assert busy.broken == []
