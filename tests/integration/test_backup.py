"""Copies of roots, of running ones too: what is in them, what is not, and that nobody takes half of one for a root."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from deltalake import DeltaTable

from delta_log import Log, ProducerStamp, Record, Settings
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.model.errors import Corruption, InvalidRequest, NotARoot, NotOwner, RootInUse
from delta_log.operations import backup, check, repair
from delta_log.operations.backup import point_in_time as cutting
from delta_log.operations.backup.backup import BACKUP_FILE, EPOCH_STEP
from delta_log.operations.backup.report import BackupProgress, BackupReport
from delta_log.root.root import MemoryRoot, ObjectRoot
from delta_log.stores import MemoryStore, Store
from tests.architecture.project_files import ROOT
from tests.support import damaged_roots as roots
from tests.support.damaged_roots import QUIET, TOPIC, expected
from tests.support.keyed_rows import READERS
from tests.support.logs import eventually, hold_tables

STEPS = (
    ("backup.begun", 1),
    ("store.staged", 3),
    ("backup.file_copied", 1),
    ("backup.file_copied", 9),
    ("backup.closed", 1),
    ("backup.log_written", 1),
    ("backup.log_written", 3),
    ("backup.tables_written", 1),
    ("backup.replayed", 1),
    ("backup.stopped", 1),
)


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    return roots.make_dead_root(tmp_path / "root")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def check_copy(copy: Path) -> None:
    """It serves what the original had acknowledged, and goes on behind it."""
    assert check(copy).findings == ()
    assert not list((copy / "journal").glob("*.seg"))
    assert roots.values(copy) == expected()
    assert [row[3] for row in roots.readers_of(copy)] == [28, 29, 30, 31]
    with Log.open(copy, settings=QUIET) as log:
        record = Record(b"%06d" % 31, key=b"k1", headers=(("h", b"1"), ("n", None)))
        assert log.append(TOPIC, [record], producer=ProducerStamp("p", 0, 31)).duplicate
        assert log.append(TOPIC, [Record(b"new")]).offsets() == [32]


def test_a_copy_has_what_the_journal_alone_had_and_needs_none(dead: Path, copy: Path):
    before = roots.content_of(dead)
    planned = backup(dead, copy, dry_run=True)
    assert not copy.exists()
    report = backup(dead, copy)
    assert roots.content_of(dead) == before
    assert (planned.tables, report.exit_code) == (report.tables, 0)
    orders = next(table for table in report.tables if table.name == TOPIC)
    assert (orders.starts, orders.ends, orders.journaled, orders.files, orders.copied) == ((0,), (32,), 8, 3, 3)
    assert "0: 0 to 32" in str(report)
    assert DeltaTable(str(copy / "topics" / TOPIC)).to_pyarrow_table().num_rows == 32
    check_copy(copy)


def test_a_second_backup_copies_only_what_is_new(dead: Path, copy: Path):
    backup(dead, copy)
    log = Log.open(dead, settings=QUIET)
    try:
        hold_tables(log)
        log.flush()
        roots.write(log, range(32, 34))
        log.flush()
        roots.write(log, range(34, 36))
        report = backup(dead, copy)
    finally:
        log.close()
    assert sum(table.copied for table in report.tables) <= 6
    assert check(copy).findings == ()
    assert roots.values(copy) == expected(36)
    assert backup_marker(copy)["complete"]


def test_a_copy_has_the_same_cluster_id_and_epochs_of_its_own(dead: Path, copy: Path):
    backup(dead, copy)
    backup(dead, copy)
    with Log.open(dead, settings=QUIET) as original, Log.open(copy, settings=QUIET) as log:
        assert log.cluster_id == original.cluster_id
        assert original.epoch < EPOCH_STEP < log.epoch < 2 * EPOCH_STEP
    second = copy.with_name("second")
    backup(copy, second)
    with Log.open(second, settings=QUIET) as log:
        assert log.epoch > 2 * EPOCH_STEP
        assert roots.read_values(log) == expected()


def backup_marker(copy: Path) -> dict[str, object]:
    return msgspec.json.decode((copy / BACKUP_FILE).read_bytes())


def test_a_copy_that_a_server_was_started_on_is_no_target_any_more(dead: Path, copy: Path):
    backup(dead, copy)
    with Log.open(copy, settings=QUIET), pytest.raises((InvalidRequest, RootInUse)):
        backup(dead, copy)
    before = roots.content_of(copy)
    with pytest.raises(InvalidRequest, match="a server was started on it"):
        backup(dead, copy)
    assert roots.content_of(copy) == before


def test_nothing_but_an_empty_place_or_a_copy_of_this_root_is_a_target(dead: Path, copy: Path):
    other = roots.make_dead_root(dead.with_name("other"))
    with pytest.raises(InvalidRequest, match="no backup"):
        backup(dead, other)
    backup(other, copy)
    with pytest.raises(InvalidRequest, match="another root"):
        backup(dead, copy)
    with pytest.raises(InvalidRequest, match="itself"):
        backup(dead, dead)
    foreign = dead.with_name("foreign")
    foreign.mkdir()
    (foreign / "something.txt").write_text("mine")
    with pytest.raises(InvalidRequest, match="not empty"):
        backup(dead, foreign)
    with pytest.raises(NotARoot):
        backup(foreign, copy)


def test_while_the_owner_writes_folds_and_rolls_everything_acknowledged_before_is_in_the_copy(tmp_path: Path):
    """And nothing in it is ahead of the rest: a row about a record is there only with that record."""
    root, stop = tmp_path / "root", threading.Event()
    acked = 0
    with Log.open(root, settings=Settings(segment_bytes=16 * 1024)) as log:
        log.create_topic(TOPIC, config={"lakelog.commit.interval.ms": 100, "lakelog.fold.files": 2})

        def go_on() -> None:
            nonlocal acked
            while not stop.is_set():
                roots.write(log, range(acked, acked + 1))
                acked += 1

        writer = threading.Thread(target=go_on)
        writer.start()
        try:
            copies: list[tuple[Path, int, BackupReport]] = []
            for number in range(4):
                target = tmp_path / f"copy{number % 2}"
                enough = acked + 20
                eventually(lambda enough=enough: acked >= enough, "twenty more records")
                before = acked
                copies.append((target, before, backup(root, target)))
                if number >= 1:
                    check_is_one_moment(*copies.pop(0))
            check_is_one_moment(*copies.pop(0))
        finally:
            stop.set()
            writer.join()


def check_is_one_moment(copy: Path, acked: int, report: BackupReport) -> None:
    assert report.complete
    assert check(copy).findings == ()
    twin = MemoryRoot()
    backup(copy, twin)
    with Log.open(twin, settings=QUIET) as log:
        values = roots.read_values(log)
        assert len(values) >= acked
        assert values == [b"%06d" % number for number in range(len(values))]
        rows = log.open_ledger([READERS]).load(READERS.name)
        newest = max((row[3] for row in rows), default=-1)
        assert len(values) - 2 <= newest < len(values)
        stamp = ProducerStamp("p", 0, len(values) - 1)
        number = len(values) - 1
        record = Record(b"%06d" % number, key=b"k%d" % (number % 3), headers=(("h", b"1"), ("n", None)))
        assert log.append(TOPIC, [record], producer=stamp).duplicate


def test_files_that_are_replaced_and_deleted_amid_a_backup_are_not_missed(dead: Path, copy: Path):
    with Log.open(dead, settings=QUIET) as log:
        log.alter_topic(TOPIC, {"lakelog.fold.files": 2})
        steps: list[BackupProgress] = []

        def disturb(step: BackupProgress) -> None:
            if not steps:
                log.flush()
                log.fold(TOPIC)
                live = log._running.catalog.live(TOPIC)
                for path in list(live.table.snapshot.removed):
                    live.table.store.delete(live.table.path(path))
            steps.append(step)

        report = backup(dead, copy, progress=disturb)
    assert report.complete
    assert [step.files for step in steps][:2] == [0, 1]
    check_copy(copy)


def test_an_older_version_is_taken_where_the_newest_is_ahead_of_the_journal(dead: Path, copy: Path):
    """A checkpoint may be ahead, too: then the entries lead there from the one before."""
    with Log.open(dead, settings=QUIET) as log:
        hold_tables(log)
        live = log._running.catalog.live(TOPIC)
        write_checkpoint(live.table)
        log.flush()
        write_checkpoint(live.table)
        report = backup(dead, copy)
    assert report.complete
    check_copy(copy)


def test_a_file_that_the_original_lost_is_named_and_the_rest_is_there(dead: Path, copy: Path):
    with Log.open(dead, settings=QUIET):
        pass
    lost = roots.topic_files(dead)[1]
    lost.unlink()
    report = backup(dead, copy)
    assert (report.missing, report.exit_code) == ((str(lost.relative_to(dead)),), 1)
    assert f"not in it: {lost.relative_to(dead)}: it is missing" in str(report)
    assert repair(copy, give_up=[(TOPIC, 0, 8, 15)]).exit_code == 0
    assert roots.values(copy) == expected()[:8] + expected()[16:]


@pytest.mark.parametrize("table", [TOPIC, "__producers", READERS.name])
def test_a_table_whose_log_is_damaged_is_left_out_and_named(dead: Path, copy: Path, table: str):
    roots.empty(roots.entries(dead, table)[1])
    report = backup(dead, copy)
    assert [name for name, _ in report.left_out] == [table]
    assert report.exit_code == 1
    if table != TOPIC:
        assert roots.values(copy) == expected()


def test_a_journal_with_neighbours_unreadable_can_be_left_behind(dead: Path, copy: Path):
    segment = roots.segment_of(dead)
    for group in roots.groups_of(segment)[2:4]:
        roots.flip(segment, group.position + 40)
    with pytest.raises(Corruption, match="repair"):
        backup(dead, copy)
    assert not copy.exists()
    report = backup(dead, copy, with_journal=False)
    assert [table.ends for table in report.tables if table.name == TOPIC] == [(24,)]
    assert roots.values(copy) == expected()[:24]


def test_records_that_the_journal_lost_are_named(dead: Path, copy: Path):
    segment = roots.segment_of(dead)
    frames = [f for g in roots.groups_of(segment) for f in g.frames if f.frame.topic == TOPIC]
    roots.flip(segment, frames[-1].place.position)
    report = backup(dead, copy)
    assert any("fails its checksum" in what for what in report.damage)
    with Log.open(copy, settings=QUIET) as log:
        assert roots.read_values(log) == expected()[:31]
        assert log.append(TOPIC, [Record(b"new")]).offsets() == [32]


def test_a_deleted_topic_stays_deleted(dead: Path, copy: Path):
    with Log.open(dead, settings=QUIET) as log:
        log.delete_topic(TOPIC)
        assert backup(dead, copy).complete
    with Log.open(copy, settings=QUIET) as log:
        assert log.topics() == []
        assert log.create_topic(TOPIC).name == TOPIC


def test_any_store_is_a_source_and_a_target(dead: Path, tmp_path: Path):
    bucket, twin = ObjectRoot(MemoryStore("bucket")), ObjectRoot(MemoryStore("twin"))
    assert backup(dead, bucket).complete
    assert check(bucket).findings == ()
    log = Log.open(bucket, settings=QUIET)
    try:
        hold_tables(log)
        roots.write(log, range(32, 40))
        assert check(bucket).findings == ()
        assert backup(bucket, twin).complete
        assert backup(bucket, tmp_path / "back").complete
    finally:
        log.close()
    with Log.open(twin, settings=QUIET) as other:
        assert roots.read_values(other) == expected(40)
    assert roots.values(tmp_path / "back") == expected(40)


def test_a_running_log_in_memory_has_nothing_to_look_at(copy: Path):
    with pytest.raises((InvalidRequest, NotARoot)):
        backup("memory://", copy)


KILLED = """
import sys
from pathlib import Path
from delta_log.operations import backup
from tests.support.kill_probe import Probe
backup(Path(sys.argv[1]), Path(sys.argv[2]), probe=Probe(sys.argv[3], int(sys.argv[4])))
"""


@pytest.mark.parametrize(("step", "hit"), STEPS)
def test_half_a_copy_is_no_root_and_a_backup_that_was_killed_is_run_again(dead: Path, copy: Path, step: str, hit: int):
    command = [sys.executable, "-c", KILLED, str(dead), str(copy), step, str(hit)]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode == -9, ended.stderr
    with pytest.raises(NotARoot):
        Log.open(copy, settings=QUIET)
    assert backup(dead, copy).complete
    check_copy(copy)


def test_a_copy_stays_what_it_was_until_the_new_files_are_there(dead: Path, copy: Path):
    backup(dead, copy)
    with Log.open(dead, settings=QUIET) as log:
        roots.write(log, range(32, 33))
    command = [sys.executable, "-c", KILLED, str(dead), str(copy), "backup.file_copied", "1"]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    assert roots.values(copy)[:32] == expected()


def test_of_two_backups_to_one_place_the_later_one_counts(dead: Path, copy: Path):
    begun: list[BackupProgress] = []

    def overtake(step: BackupProgress) -> None:
        if not begun:
            begun.append(step)
            backup(dead, copy)

    with pytest.raises(NotOwner):
        backup(dead, copy, progress=overtake)
    with pytest.raises(NotARoot):
        Log.open(copy, settings=QUIET)
    backup(dead, copy)
    check_copy(copy)


def test_what_reaches_the_tables_after_the_journal_was_read_is_not_in_the_copy(
    dead: Path, copy: Path, monkeypatch: pytest.MonkeyPatch
):
    """Not even in those tables that are quicker than others: a copy is of one moment."""
    with Log.open(dead, settings=QUIET) as log:
        hold_tables(log)
        log.flush()
        roots.write(log, range(32, 36))
        list_tables = cutting.list_tables

        def go_on_first(store: Store) -> list[str]:
            monkeypatch.undo()
            roots.write(log, range(36, 40))
            log._running.tabler.bring_up(log._running.writer.sequencer.producer_table)
            log.flush(TOPIC)
            return list_tables(store)

        monkeypatch.setattr(cutting, "list_tables", go_on_first)
        assert backup(dead, copy).complete
        assert len(roots.read_values(log)) == 40
    assert roots.values(copy) == expected(36)
    assert [row[3] for row in roots.readers_of(copy)] == [32, 33, 34, 35]
    with Log.open(copy, settings=QUIET) as log:
        roots.write(log, range(36, 40))
        assert roots.read_values(log) == expected(40)
