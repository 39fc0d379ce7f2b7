"""A topic is a plain Delta table: whoever reads it sees the rows that the log serves, and nobody else writes it."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, write_deltalake
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError

from delta_log import Log, LogReader, Record, Settings
from delta_log.delta.write_checkpoint import write_checkpoint
from tests.support.logs import eventually
from tests.support.other_readers import READERS, Rows, by_datafusion, by_delta_rs, by_log, shorten_log, write

TOPIC = "orders"
QUIET = Settings(upkeep=False)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path / "root", settings=QUIET) as opened:
        opened.create_topic(TOPIC, 3)
        write(opened, TOPIC)
        yield opened


def recreate(log: Log) -> None:
    log.delete_topic(TOPIC)
    log.create_topic(TOPIC, 2)
    write(log, TOPIC, first=50)


def grow(log: Log) -> None:
    log.add_partitions(TOPIC, 5)
    write(log, TOPIC, first=50)


def retain(log: Log) -> None:
    log.alter_topic(TOPIC, {"retention.bytes": 1, "segment.ms": 1})
    assert log.run_retention(TOPIC)


def delete_records(log: Log) -> None:
    """Up to the middle of a file, and everything."""
    log.fold(TOPIC)
    log.delete_records(TOPIC, 0, log.offsets(TOPIC, 0).end_offset // 2)
    log.delete_records(TOPIC, 1, -1)


def fold(log: Log) -> None:
    log.alter_topic(TOPIC, {"lakelog.fold.files": 2})
    assert log.fold(TOPIC)


STEPS: dict[str, Callable[[Log], object]] = {
    "commits": lambda log: None,
    "a fold": fold,
    "a checkpoint": lambda log: write_checkpoint(log._running.catalog.live(TOPIC).table),
    "a checkpoint and a shorter log": lambda log: shorten_log(log, TOPIC),
    "a fold, a checkpoint and a shorter log": lambda log: (fold(log), shorten_log(log, TOPIC)),
    "retention": retain,
    "delete-records": delete_records,
    "deletion": lambda log: log.delete_records(TOPIC, 2, -1),
    "deletion and a new life": recreate,
    "a new life and a shorter log": lambda log: (recreate(log), shorten_log(log, TOPIC)),
    "new partitions": grow,
    "other settings": lambda log: log.alter_topic(TOPIC, {"compression.type": "gzip"}),
}


@pytest.mark.parametrize("step", STEPS)
def test_all_readers_see_the_rows_of_the_log(step: str, log: Log):
    """Every column of every row, and no row more: null is not empty, and a time is an instant to the microsecond."""
    STEPS[step](log)
    write(log, TOPIC, 1, first=90)
    expected = by_log(log, TOPIC)
    assert expected
    for name, read in READERS.items():
        assert read(log.table_location(TOPIC)) == expected, name
    with LogReader.open(log.location) as reader:
        assert by_log(reader, TOPIC) == expected


def test_every_kind_of_value_is_among_those_rows(log: Log):
    """Else the comparison above would say little."""
    rows = by_log(log, TOPIC)
    for column in ("key", "value"):
        assert {None, b""} < {row[column] for row in rows}
    assert {None, 0, 1, 3} == {None if row["headers"] is None else len(row["headers"]) for row in rows}
    assert {row["timestamp"].microsecond % 1000 for row in rows} == {0, 1, 999}
    assert {row["producer_id"] for row in rows} == {None, "from 0"}
    assert len({row["partition"] for row in rows}) == 3


def test_a_topic_without_records_is_an_empty_table(tmp_path: Path):
    with Log.open(tmp_path / "root", settings=QUIET) as log:
        log.create_topic(TOPIC, 2)
        assert [read(log.table_location(TOPIC)) for read in READERS.values()] == [[]] * len(READERS)


def test_readers_beside_a_busy_writer_see_a_part_from_the_start_without_gaps(tmp_path: Path):
    """While commits, folds and checkpoints go on, each partition shows a dense run of true rows from its start."""
    settings = Settings(upkeep=False, table_workers=1)
    config = {"lakelog.commit.interval.ms": 100, "lakelog.fold.files": 2}
    with Log.open(tmp_path / "root", settings=settings) as log:
        log.create_topic(TOPIC, 2, config)
        done = threading.Event()
        failed: list[BaseException] = []

        def keep_writing() -> None:
            number = 0
            try:
                while not done.is_set():
                    log.append(TOPIC, [Record(b"%d" % n, b"k%d" % n) for n in range(number, number + 7)])
                    number += 7
                    if number % 70 == 0:
                        log.fold(TOPIC)
                        write_checkpoint(log._running.catalog.live(TOPIC).table)
                    done.wait(0.01)
            except BaseException as error:
                failed.append(error)
                raise

        writer = threading.Thread(target=keep_writing)
        writer.start()
        try:
            location = log.table_location(TOPIC)
            eventually(lambda: failed or DeltaTable(location).version() > 3, "a few commits")
            seen: list[tuple[str, Rows]] = [(name, read(location)) for _ in range(4) for name, read in READERS.items()]
        finally:
            done.set()
            writer.join()
        assert not failed
        truth = {(row["partition"], row["offset"]): row for row in by_log(log, TOPIC)}
        for name, rows in seen:
            assert rows
            for partition in (0, 1):
                mine = [row for row in rows if row["partition"] == partition]
                assert [row["offset"] for row in mine] == list(range(len(mine))), name
            assert all(truth[row["partition"], row["offset"]] == row for row in rows), name


CONDITIONS = [
    '"offset" = 4',
    '"offset" >= 3 AND "offset" < 6',
    "partition = 1",
    'partition = 1 AND "offset" > 2',
    "\"timestamp\" = TIMESTAMP '2023-11-14T22:13:20.000999Z'",
    "\"timestamp\" >= TIMESTAMP '2023-11-14T22:13:22.000999Z'",
    "\"timestamp\" < TIMESTAMP '2023-11-14T22:13:20.000002Z'",
    "key IS NULL",
    "value = X''",
    "headers IS NOT NULL",
    "producer_id = 'from 0' AND sequence = 1",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_the_statistics_let_no_reader_skip_a_row_that_he_is_looking_for(condition: str, log: Log):
    """Times are cut to milliseconds in them, rounded away from what they enclose."""
    fold(log)
    write(log, TOPIC, 2, first=3)
    location = log.table_location(TOPIC)
    everything = by_datafusion(location)
    without_statistics = by_datafusion(location, f"({condition}) OR random() < 0")
    assert 0 < len(without_statistics) < len(everything)
    assert by_datafusion(location, condition) == without_statistics


def test_a_table_says_that_any_may_read_and_nobody_else_may_write(log: Log):
    protocol = DeltaTable(log.table_location(TOPIC)).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 7)
    assert protocol.writer_features == ["appendOnly", "invariants", "lakelog.exclusive"]
    assert not protocol.reader_features


ROW = pa.table({"partition": pa.array([0], pa.int32()), "offset": pa.array([0], pa.int64())})
WRITES: dict[str, Callable[[DeltaTable], object]] = {
    "append": lambda table: write_deltalake(table, ROW, mode="append", schema_mode="merge"),
    "overwrite": lambda table: write_deltalake(table, ROW, mode="overwrite", schema_mode="overwrite"),
    "append by path": lambda table: write_deltalake(table.table_uri, ROW, mode="append", schema_mode="merge"),
    "delete": lambda table: table.delete('"offset" = 0'),
    "delete all": lambda table: table.delete(),
    "update": lambda table: table.update(updates={"value": "NULL"}),
    "merge": lambda table: table.merge(ROW, '"offset" = -1').when_not_matched_insert_all().execute(),
    "compact": lambda table: table.optimize.compact(),
    "z-order": lambda table: table.optimize.z_order(["offset"]),
    "restore": lambda table: table.restore(1),
    "new column": lambda table: table.alter.add_columns(Field("x", "string")),
    "new property": lambda table: table.alter.set_table_properties({"delta.appendOnly": "true"}),
    "new constraint": lambda table: table.alter.add_constraint({"x": '"offset" >= 0'}),
    "empty commit": lambda table: table.create_write_transaction(
        [], "append", DeltaSchema.from_arrow(table.schema()), ["partition"], commit_properties=CommitProperties()
    ),
}


@pytest.mark.parametrize("what", WRITES)
def test_delta_rs_is_refused_whatever_it_wants_to_write(what: str, log: Log):
    """An engine that knows nothing of offsets would break them."""
    location = log.table_location(TOPIC)
    before = (DeltaTable(location).version(), by_log(log, TOPIC))
    with pytest.raises(DeltaError, match=r"lakelog\.exclusive"):
        WRITES[what](DeltaTable(location))
    assert (DeltaTable(location).version(), by_delta_rs(location)) == before
    write(log, TOPIC, 1, first=60)
    assert by_delta_rs(location) == by_log(log, TOPIC)


def test_delta_rs_travels_to_every_version_within_the_history(log: Log):
    location = log.table_location(TOPIC)
    versions: dict[int, Rows] = {}
    for number in range(5, 9):
        write(log, TOPIC, 1, first=number)
        versions[DeltaTable(location).version()] = by_delta_rs(location)
        if number == 6:
            fold(log)
            versions[DeltaTable(location).version()] = by_delta_rs(location)
            log.delete_records(TOPIC, 0, -1)
            versions[DeltaTable(location).version()] = by_delta_rs(location)
    assert len({len(rows) for rows in versions.values()}) > 2
    assert {version: by_delta_rs(location, version) for version in versions} == versions
    write_checkpoint(log._running.catalog.live(TOPIC).table)
    assert {version: by_delta_rs(location, version) for version in versions} == versions


def test_what_lies_before_the_history_is_refused_not_invented(log: Log):
    location = log.table_location(TOPIC)
    shorten_log(log, TOPIC)
    write(log, TOPIC, 1, first=60)
    oldest = min(int(path.name[:20]) for path in Path(location, "_delta_log").glob("*.json"))
    assert oldest > 0
    assert by_delta_rs(location, oldest)
    with pytest.raises(DeltaError):
        by_delta_rs(location, oldest - 1)


def test_a_log_goes_on_from_a_checkpoint_and_a_clean_up_by_delta_rs(tmp_path: Path, log: Log):
    """Both are allowed to everybody: they change nothing that a table says."""
    fold(log)
    expected = by_log(log, TOPIC)
    table = DeltaTable(log.table_location(TOPIC))
    table.create_checkpoint()
    table.cleanup_metadata()
    assert table.vacuum(dry_run=True, full=True) == []
    log.close()
    with Log.open(tmp_path / "root", settings=QUIET) as again:
        assert again._running.catalog.live(TOPIC).table.checkpoint_version == table.version()
        assert by_log(again, TOPIC) == expected
        write(again, TOPIC, 2, first=7)
        assert by_delta_rs(again.table_location(TOPIC)) == by_log(again, TOPIC)
