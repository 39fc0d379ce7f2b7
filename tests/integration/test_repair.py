"""What `repair` cures, with everything acknowledged there afterwards, and what it leaves as it is and names.

It is long, as what can be cured stands beside what looks like it and is left alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from delta_log import Log, LogReader, ProducerStamp, Record
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.model.errors import InvalidRequest, RootInUse
from delta_log.model.lost_ranges import LOST
from delta_log.operations import check, repair
from delta_log.operations.repair.repair import RepairReport
from tests.architecture.project_files import ROOT
from tests.support import damaged_roots as roots
from tests.support.damaged_roots import KINDS, QUIET, TOPIC, expected
from tests.support.keyed_rows import READERS
from tests.support.logs import crash, hold_tables

STEPS = (
    "repair.entry_written",
    "repair.checkpoint_written",
    "repair.file_written",
    "repair.cured",
    "repair.replayed",
    "store.staged",
    "store.renamed",
    "store.linked",
    "table.files_written",
    "table.committed",
    "journal.emptied",
)


@pytest.fixture
def dead(tmp_path: Path) -> Path:
    return roots.make_dead_root(tmp_path / "root")


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    return roots.make_dead_root(tmp_path / "root", journal=False)


def repaired(root: Path, **asked: object) -> RepairReport:
    """A dry run first, which says the same and changes nothing."""
    before, would, said = roots.content_of(root), [], []
    planned = repair(root, dry_run=True, say=would.append, **asked)
    assert roots.content_of(root) == before
    report = repair(root, say=said.append, **asked)
    assert would == said[: len(would)]
    assert planned.done == report.done[: len(planned.done)] or not planned.done
    return report


def check_cured(root: Path) -> None:
    assert check(root).sound
    assert roots.values(root) == expected()
    assert [row[3] for row in roots.readers_of(root)] == [28, 29, 30, 31]
    with Log.open(root, settings=QUIET) as log:
        again = log.append(TOPIC, [Record(b"%06d" % 31, key=b"k1", headers=(("h", b"1"), ("n", None)))], producer=STAMP)
        assert (again.duplicate, again.offsets()) == (True, [31])
        assert log.append(TOPIC, [Record(b"new")]).offsets() == [32]


STAMP = ProducerStamp("p", 0, 31)


def test_there_is_nothing_to_do_on_a_sound_root(dead: Path):
    report = repaired(dead)
    assert (report.done, report.left, report.exit_code) == ((), (), 0)
    check_cured(dead)


@pytest.mark.parametrize("kind", ["flipped", "cut", "empty"])
@pytest.mark.parametrize("table", [TOPIC, "__producers", READERS.name])
def test_an_unreadable_newest_entry_is_emptied_when_the_journal_has_its_rows(dead: Path, kind: str, table: str):
    entry = roots.entries(dead, table)[-1]
    KINDS[kind](entry)
    report = repaired(dead)
    assert [cure.version for cure in report.done] == [int(entry.stem)]
    assert report.left == ()
    check_cured(dead)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table", [TOPIC, "__producers", READERS.name])
def test_a_damaged_data_file_is_written_anew_from_the_journal(dead: Path, kind: str, table: str):
    KINDS[kind]((roots.topic_files(dead) if table == TOPIC else roots.table_files(dead, table))[1])
    report = repaired(dead)
    assert len(report.done) == 1
    check_cured(dead)


def test_many_damages_are_cured_by_one_repair(dead: Path):
    roots.empty(roots.entries(dead)[-1])
    roots.flip(roots.topic_files(dead)[0])
    roots.remove(roots.table_files(dead, READERS.name)[1])
    report = repaired(dead)
    assert len(report.done) == 3
    check_cured(dead)


def test_an_owner_whose_first_record_is_in_the_journal_is_made_known_again(stopped: Path):
    """Its entry is lost, and proven by the record: no owner gives out an offset before it made itself known."""
    log = Log.open(stopped, settings=QUIET)
    hold_tables(log)
    roots.write(log, range(32, 34))
    crash(log)
    roots.empty(roots.entries(stopped)[-1])
    assert not check(stopped).sound
    report = repaired(stopped)
    assert report.left == ()
    assert check(stopped).sound
    assert roots.values(stopped) == expected(34)


def test_a_rewrite_can_be_done_without_as_long_as_the_files_that_it_took_out_are_there(stopped: Path):
    with Log.open(stopped, settings=QUIET) as log:
        log.alter_topic(TOPIC, {"lakelog.fold.files": 2})
        assert log.fold(TOPIC) == 1
        newest = roots.entries(stopped)[-1]
    for kind in ("cut", "empty"):
        copy = stopped.with_name(kind)
        shutil.copytree(stopped, copy)
        KINDS[kind](copy / newest.relative_to(stopped))
        report = repaired(copy)
        assert report.left == ()
        check_cured(copy)
    shutil.copytree(stopped, stopped.with_name("less"))
    less = stopped.with_name("less")
    roots.cut(less / newest.relative_to(stopped))
    roots.remove(roots.topic_files(less)[0])
    assert "not all of those" in repaired(less).left[0]


@pytest.mark.parametrize("kind", ["flipped", "cut", "empty", "missing"])
def test_an_entry_whose_rows_nothing_else_has_is_left_alone(stopped: Path, kind: str):
    KINDS[kind](roots.entries(stopped)[-2 if kind == "missing" else -1])
    before = roots.content_of(stopped)
    report = repaired(stopped)
    assert (report.done, report.exit_code) == ((), 1)
    assert "backup" in report.left[0]
    assert roots.content_of(stopped) == before


@pytest.mark.parametrize("kind", ["flipped", "cut", "empty"])
def test_a_change_of_settings_is_left_alone(stopped: Path, kind: str):
    with Log.open(stopped, settings=QUIET) as log:
        log.alter_topic(TOPIC, {"retention.ms": 1})
    KINDS[kind](roots.entries(stopped)[-1])
    before = roots.content_of(stopped)
    (left,) = repaired(stopped).left
    assert ("nothing tells what it was" if kind == "empty" else "SET TBLPROPERTIES") in left
    assert roots.content_of(stopped) == before


@pytest.mark.parametrize("place", [0, 1])
def test_an_older_entry_is_never_touched(dead: Path, place: int):
    roots.empty(roots.entries(dead)[place])
    before = roots.content_of(dead)
    report = repaired(dead)
    assert report.done == ()
    assert "backup" in report.left[0]
    assert roots.content_of(dead) == before


def test_frames_of_the_journal_that_are_damaged_are_no_rows(dead: Path):
    roots.empty(roots.entries(dead)[-1])
    segment = roots.segment_of(dead)
    damaged = next(
        f for g in roots.groups_of(segment) for f in g.frames if f.frame.topic == TOPIC and f.frame.base_offset == 20
    )
    roots.flip(segment, damaged.place.position)
    before = roots.content_of(dead)
    report = repaired(dead)
    assert report.done == ()
    assert roots.content_of(dead) == before


def with_checkpoint(root: Path, *, shorten: bool = False) -> Path:
    with Log.open(root, settings=QUIET) as log:
        live = log._running.catalog.live(TOPIC)
        write_checkpoint(live.table)
        version = live.table.snapshot.version
    if shorten:
        for entry in roots.entries(root):
            if int(entry.stem) < version:
                entry.unlink()
    return root / f"topics/{TOPIC}/_delta_log/{version:020d}.checkpoint.parquet"


@pytest.mark.parametrize("kind", ["flipped", "cut", "empty"])
def test_a_bad_checkpoint_is_written_anew_from_the_entries(stopped: Path, kind: str):
    checkpoint = with_checkpoint(stopped)
    KINDS[kind](checkpoint)
    roots.empty(checkpoint.with_name("_last_checkpoint"))
    assert repaired(stopped).left == ()
    check_cured(stopped)


def test_a_hint_at_a_checkpoint_that_is_gone_goes_too(stopped: Path):
    with_checkpoint(stopped).unlink()
    assert len(repaired(stopped).done) == 1
    check_cured(stopped)


def test_a_bad_checkpoint_that_nothing_leads_to_is_left_alone(stopped: Path):
    roots.flip(with_checkpoint(stopped, shorten=True))
    before = roots.content_of(stopped)
    report = repaired(stopped)
    assert report.done == ()
    assert report.left
    assert roots.content_of(stopped) == before


def break_groups(root: Path, first: int, behind: int) -> None:
    segment = roots.segment_of(root)
    for group in roots.groups_of(segment)[first:behind]:
        roots.flip(segment, group.position + 40)


def test_a_journal_with_neighbours_unreadable_is_replayed_where_the_tables_have_them(dead: Path):
    break_groups(dead, 4, 6)
    report = repaired(dead)
    assert len(report.done) == 1
    assert "never give out" not in str(report.done[0]), "later frames say where everything was"
    check_cured(dead)


def test_offsets_that_an_unreadable_journal_may_have_given_out_are_never_given_out_again(dead: Path):
    """The last two groups that can be told from a torn end; behind them only another topic speaks."""
    log = Log.open(dead, settings=QUIET)
    hold_tables(log)
    log.create_topic("other")
    log.flush()
    roots.write(log, range(32, 36))
    for number in range(3):
        log.append("other", [Record(b"%d" % number)])
    crash(log)
    segment = roots.segment_of(dead)
    own = [n for n, g in enumerate(roots.groups_of(segment)) if g.frames[0].frame.topic != "other"]
    break_groups(dead, own[-2] - 1, own[-1] + 1)
    report = repaired(dead)
    assert check(dead).sound or report.left
    with Log.open(dead, settings=QUIET) as again:
        assert again.append(TOPIC, [Record(b"new")]).offsets()[0] >= 36
        assert roots.read_values(again, "other") == [b"0", b"1", b"2"]
        assert roots.read_values(again)[:32] == expected()


@pytest.mark.parametrize("journal", [True, False])
def test_a_root_whose_writers_are_older_than_its_tables_goes_on_behind_them(tmp_path: Path, journal: bool):
    """As after a restore of single files. Without the cure each owner takes itself for one that was replaced."""
    root = tmp_path / "root"
    Log.open(root, settings=QUIET).close()
    shutil.copytree(root / "writers", tmp_path / "older")
    for _ in range(2):
        Log.open(root, settings=QUIET).close()
    roots.make_dead_root(root, journal=journal)
    shutil.rmtree(root / "writers")
    shutil.copytree(tmp_path / "older", root / "writers")
    assert not check(root).sound
    assert repair(root, dry_run=True).left == ()
    report = repaired(root)
    assert (len(report.done), report.left) == (1, ())
    check_cured(root)


def lose_a_file(root: Path, place: int = 1) -> None:
    roots.remove(roots.topic_files(root)[place])


def test_a_range_that_is_given_up_is_a_hole_that_its_table_names(stopped: Path):
    lose_a_file(stopped)
    assert "orders:0:8-15" in repaired(stopped).left[0]
    report = repaired(stopped, give_up=[(TOPIC, 0, 8, 15)])
    assert (len(report.done), report.exit_code) == (1, 0)
    assert [found.severity.value for found in check(stopped).findings] == ["note"]
    kept = expected()[:8] + expected()[16:]
    assert roots.values(stopped) == kept
    with LogReader.open(stopped) as reader:
        assert roots.read_values(reader) == kept
    with Log.open(stopped, settings=QUIET) as log:
        log.alter_topic(TOPIC, {"retention.ms": 1000})
        assert log._running.catalog.live(TOPIC).table.snapshot.configuration[LOST] == "0:8-15"
        assert log.append(TOPIC, [Record(b"new")]).offsets() == [32]
    assert repaired(stopped, give_up=[(TOPIC, 0, 8, 15)]).done == (), "it was given up before"


def test_what_can_still_be_read_of_a_damaged_file_is_kept(tmp_path: Path):
    root = tmp_path / "root"
    with Log.open(root, settings=QUIET) as log:
        log.create_topic(TOPIC)
        log.append(TOPIC, [Record(os.urandom(10)) for _ in range(25_000)])
        written = roots.read_values(log)
    (file,) = roots.topic_files(root)
    roots.flip(file)
    (left,) = repaired(root).left
    assert "orders:0:10000-19999" in left
    for asked in ((9_999, 19_999), (10_000, 20_000), (10_000, 15_000), (0, 24_999)):
        before = roots.content_of(root)
        with pytest.raises(InvalidRequest):
            repair(root, give_up=[(TOPIC, 0, *asked)])
        assert roots.content_of(root) == before
    assert repaired(root, give_up=[(TOPIC, 0, 10_000, 19_999)]).exit_code == 0
    assert check(root).sound
    assert roots.values(root) == written[:10_000] + written[20_000:]


def test_a_file_that_the_journal_has_in_part_is_given_up_without_that_part(dead: Path):
    lose_a_file(dead, 2)
    segment = roots.segment_of(dead)
    damaged = next(
        f for g in roots.groups_of(segment) for f in g.frames if f.frame.topic == TOPIC and f.frame.base_offset == 20
    )
    roots.flip(segment, damaged.place.position)
    assert "orders:0:20-20" in repaired(dead).left[-1]
    with pytest.raises(InvalidRequest, match="can still be read"):
        repair(dead, give_up=[(TOPIC, 0, 16, 23)])
    repaired(dead, give_up=[(TOPIC, 0, 20, 20)])
    assert roots.values(dead) == expected()[:20] + expected()[21:]


@pytest.mark.parametrize(
    "asked",
    [
        ("nobody", 0, 0, 1),
        (TOPIC, 1, 0, 1),
        (TOPIC, -1, 0, 1),
        (TOPIC, 0, 5, 4),
        (TOPIC, 0, -1, 4),
        (TOPIC, 0, 0, 32),
        (TOPIC, 0, 8, 15),
        (TOPIC, 0, True, 1),
        (TOPIC, "0", 0, 1),
    ],
)
def test_what_is_readable_or_no_range_is_not_given_up_and_nothing_is_changed(dead: Path, asked: tuple[object, ...]):
    before = roots.content_of(dead)
    for dry_run in (True, False):
        with pytest.raises(InvalidRequest):
            repair(dead, give_up=[asked], dry_run=dry_run)  # type: ignore[list-item]
    assert roots.content_of(dead) == before


def test_what_the_journal_has_is_restored_and_not_given_up(dead: Path):
    lose_a_file(dead)
    with pytest.raises(InvalidRequest, match="restored from the journal"):
        repair(dead, give_up=[(TOPIC, 0, 8, 15)])


def test_a_root_that_somebody_owns_is_not_repaired(dead: Path):
    with Log.open(dead, settings=QUIET):
        with pytest.raises(RootInUse):
            repair(dead)
        assert repair(dead, dry_run=True).done == ()


KILLED = """
import sys
from pathlib import Path
from delta_log.operations import repair
from tests.support.kill_probe import Probe
repair(Path(sys.argv[1]), probe=Probe(sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.parametrize("step", STEPS)
def test_a_repair_that_was_killed_is_run_again(dead: Path, step: str):
    roots.empty(roots.entries(dead)[-1])
    roots.flip(roots.topic_files(dead)[0])
    roots.remove(roots.table_files(dead, READERS.name)[0])
    with_bad_checkpoint = dead / "topics/__producers/_delta_log" / f"{1:020d}.checkpoint.parquet"
    with_bad_checkpoint.write_bytes(b"PAR1")
    if step in ("repair.replayed", "journal.emptied"):
        break_groups(dead, 24, 26)
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(dead), step, "1"], cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert ended.returncode in (-9, 0), ended.stderr
    report = repair(dead)
    assert report.left == ()
    check_cured(dead)


def test_what_somebody_else_forced_on_a_table_is_left_alone_and_named(dead: Path):
    """It can be read, but not by us: it says nothing of offsets."""
    entry = dead / f"topics/{TOPIC}/_delta_log/{4:020d}.json"
    entry.write_bytes(
        b'{"add":{"path":"theirs.parquet","partitionValues":{"partition":"0"},"size":1,"modificationTime":1,'
        b'"dataChange":true}}\n{"commitInfo":{"operation":"WRITE"}}\n'
    )
    before = roots.content_of(dead)
    report = repaired(dead)
    assert report.done == ()
    assert "somebody else wrote it" in report.left[0]
    assert roots.content_of(dead) == before


@pytest.mark.parametrize("step", ["repair.replayed", "repair.table_settled", "table.committed", "repair.file_written"])
def test_a_settling_that_was_killed_skips_no_more_when_it_is_run_again(tmp_path: Path, step: str):
    """A table that took over what it skipped says so, and is in doubt no more."""
    root = tmp_path / "root"
    log = Log.open(root, settings=QUIET)
    hold_tables(log)
    for topic in ("idle", "lost", "busy"):
        log.create_topic(topic)
        log.append(topic, [Record(b"first")])
    for number in range(3):
        log.append("lost", [Record(b"%d" % number)])
    log.append("busy", [Record(b"last")])
    crash(log)
    break_groups(root, 3, 5)
    command = [sys.executable, "-c", KILLED, str(root), step, "1"]
    assert subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode == -9
    repair(root)
    with Log.open(root, settings=QUIET) as again:
        assert roots.read_values(again, "idle") == [b"first"]
        assert roots.read_values(again, "busy") == [b"first", b"last"]
        assert roots.read_values(again, "lost") == [b"first", b"2"]
        assert again.append("lost", [Record(b"new")]).offsets()[0] >= 4
        skipped = again.append("idle", [Record(b"new")]).offsets()[0]
        assert 1 <= skipped <= 1000, "once the bytes of two groups, not twice"
