"""Time that runs the wrong way: an old journal or an old copy put back, and clocks that step."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from delta_log import Log, Record, Settings
from delta_log.maintenance.jobs_api import Maintenance
from delta_log.model.errors import StorageRefused
from delta_log.operations import check
from tests.support.logs import Clock, crash, everything, hold_tables, values_of

SETTINGS = Settings(upkeep=False, tail_bytes=0, max_block_s=0.0)
DAY_MS = 86_400_000


def write(log: Log, *values: bytes) -> None:
    for value in values:
        log.append("orders", [Record(value)])


def test_an_old_journal_that_is_put_back_makes_no_record_twice_and_takes_none_away(tmp_path: Path):
    """Its groups are of an earlier opening; what they hold is in the tables, or was given to others since."""
    root, kept = tmp_path / "root", tmp_path / "journal"
    log = Log.open(root, settings=SETTINGS)
    log.create_topic("orders")
    hold_tables(log)
    write(log, b"0", b"1")
    crash(log)
    shutil.copytree(root / "journal", kept)
    with Log.open(root, settings=SETTINGS) as log:
        write(log, b"2", b"3")
    shutil.rmtree(root / "journal")
    shutil.copytree(kept, root / "journal")
    for _ in range(2):
        with Log.open(root, settings=SETTINGS) as log:
            assert values_of(log, "orders") == [b"0", b"1", b"2", b"3"]
    assert check(root).exit_code == 0
    with Log.open(root, settings=SETTINGS) as log:
        assert log.append("orders", [Record(b"4")]).offsets() == [4]


def test_yesterdays_copy_is_a_root_that_goes_on_from_yesterday(tmp_path: Path):
    root, copy = tmp_path / "root", tmp_path / "copy"
    log = Log.open(root, settings=SETTINGS)
    log.create_topic("orders")
    write(log, b"0")
    log.flush()
    write(log, b"1")
    crash(log)
    shutil.copytree(root, copy)
    with Log.open(root, settings=SETTINGS) as log:
        write(log, b"2")
    shutil.rmtree(root)
    shutil.copytree(copy, root)
    with Log.open(root, settings=SETTINGS) as log:
        assert values_of(log, "orders") == [b"0", b"1"]
        assert log.append("orders", [Record(b"3")]).offsets() == [2]
    assert check(root).exit_code == 0


def test_todays_journal_beside_yesterdays_tables_is_set_aside_and_named(tmp_path: Path):
    root, topics = tmp_path / "root", tmp_path / "topics"
    log = Log.open(root, settings=SETTINGS)
    log.create_topic("orders")
    write(log, b"0")
    log.flush()
    crash(log)
    shutil.copytree(root / "topics", topics)
    with Log.open(root, settings=SETTINGS) as log:
        write(log, b"1", b"2")
    log = Log.open(root, settings=SETTINGS)
    hold_tables(log)
    write(log, b"3")
    crash(log)
    shutil.rmtree(root / "topics")
    shutil.copytree(topics, root / "topics")
    assert check(root).exit_code == 1
    with Log.open(root, settings=SETTINGS) as log:
        assert "set aside: orders-0 3 to 3" in log.recovery
        assert values_of(log, "orders") == [b"0"]


def test_a_copy_of_the_tables_alone_goes_on_behind_the_epochs_that_they_know(tmp_path: Path):
    root, copy = tmp_path / "root", tmp_path / "copy"
    for number in range(3):
        with Log.open(root, settings=SETTINGS) as log:
            if not number:
                log.create_topic("orders")
            write(log, b"%d" % number)
    copy.mkdir()
    shutil.copy(root / "lakelog.json", copy)
    shutil.copytree(root / "topics", copy / "topics")
    for number in range(3, 5):
        with Log.open(copy, settings=SETTINGS) as log:
            assert log.epoch == number + 1
            write(log, b"%d" % number)
    assert check(copy).exit_code == 0
    with Log.open(copy, settings=SETTINGS) as log:
        assert values_of(log, "orders") == [b"%d" % number for number in range(5)]


@pytest.mark.parametrize("step", [-8 * DAY_MS, 8 * DAY_MS], ids=["back", "forward"])
def test_a_clock_that_steps_harms_neither_offsets_nor_order_and_deletes_nothing_that_is_live(tmp_path: Path, step: int):
    clock = Clock()
    config = {"retention.ms": DAY_MS, "lakelog.history.ms": 60_000, "file.delete.delay.ms": 0, "lakelog.fold.files": 2}
    with Log.open(tmp_path / "root", settings=SETTINGS, clock_ms=clock) as log:
        log.create_topic("orders", config=config | {"message.timestamp.after.max.ms": 9_000_000_000})
        for number in range(12):
            if number == 6:
                clock.turn(step)
            write(log, b"%d" % number)
            log.flush()
            log.run_upkeep()
        assert [record.offset for record in everything(log, "orders")] == list(range(12))
        assert values_of(log, "orders") == [b"%d" % number for number in range(12)]
    assert check(tmp_path / "root").exit_code == 0


@pytest.mark.parametrize("step", [-8 * DAY_MS, 8 * DAY_MS], ids=["back", "forward"])
def test_a_job_whose_clock_is_days_off_takes_nothing_away(tmp_path: Path, step: int):
    with Log.open(tmp_path / "root", settings=SETTINGS) as log:
        log.create_topic("orders", config={"retention.ms": DAY_MS})
        write(log, b"0")
        log.flush()
        door = Maintenance.open(tmp_path / "root", clock_ms=lambda: time.time_ns() // 1_000_000 + step)
        with pytest.raises(StorageRefused, match="clock"):
            door.agreed_now()
        assert values_of(log, "orders") == [b"0"]
