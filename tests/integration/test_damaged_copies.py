"""Copies of roots, and of copies, of which something is not what was written: it is named, and the rest comes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from delta_log.operations import backup, check, restore
from delta_log.operations.backup.report import BackupReport
from delta_log.root.root import ObjectRoot
from delta_log.stores import MemoryStore
from tests.architecture.project_files import ROOT
from tests.support import damaged_roots as roots
from tests.support.damaged_roots import KINDS, TOPIC, expected

#: What can be told without reading all of a file; the rest turns out when it is copied.
FORESEEN = KINDS.keys() - {"flipped"}


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    return roots.make_dead_root(tmp_path / "root", journal=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def check_named(report: BackupReport, file: str) -> None:
    assert (report.exit_code, report.complete) == (1, False)
    (line,) = [line for line in str(report).splitlines() if file in line]
    assert line.startswith("not in it: ")


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_named_by_every_backup_until_it_is_put_back(stopped: Path, copy: Path, kind: str):
    """It is copied as it is, as much of it may be readable; the next backup does not take that for what was written."""
    file = roots.topic_files(stopped)[1]
    path, content = file.relative_to(stopped).as_posix(), file.read_bytes()
    KINDS[kind](file)
    for _ in range(2):
        before = roots.content_of(stopped)
        planned = backup(stopped, copy, dry_run=True)
        report = backup(stopped, copy)
        assert roots.content_of(stopped) == before
        check_named(report, path)
        assert (copy / path).exists() == file.exists()
        assert not file.exists() or (copy / path).read_bytes() == file.read_bytes()
        assert planned.missing == report.missing
        if kind in FORESEEN:
            assert str(planned).splitlines()[:-1] == str(report).splitlines()[:-1] or kind == "missing"
            check_named(planned, path)
        assert [finding.place for finding in check(copy).findings] == [path]
    file.write_bytes(content)
    assert backup(stopped, copy).complete
    assert check(copy).findings == ()
    assert backup(stopped, copy).complete
    assert roots.values(copy) == expected()


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_earlier_backup_has_as_it_was_written_stays(stopped: Path, copy: Path, kind: str):
    assert backup(stopped, copy).complete
    KINDS[kind](roots.topic_files(stopped)[1])
    assert backup(stopped, copy).complete
    assert check(copy).findings == ()
    assert roots.values(copy) == expected()


KILLED = """
import sys
from pathlib import Path
from delta_log.operations import backup
from tests.support.kill_probe import Probe
backup(Path(sys.argv[1]), Path(sys.argv[2]), probe=Probe(sys.argv[3], int(sys.argv[4])))
"""


@pytest.mark.parametrize(("step", "hit"), [("backup.closed", 1), ("backup.tables_written", 1), ("backup.stopped", 1)])
def test_a_backup_that_was_killed_behind_a_damaged_file_names_it_when_it_is_run_again(
    stopped: Path, copy: Path, step: str, hit: int
):
    file = roots.topic_files(stopped)[1]
    roots.flip(file)
    command = [sys.executable, "-c", KILLED, str(stopped), str(copy), step, str(hit)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    check_named(backup(stopped, copy), file.name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("bucket", [False, True])
def test_a_restore_of_a_damaged_backup_names_what_is_damaged_and_has_the_rest(
    stopped: Path, copy: Path, tmp_path: Path, kind: str, *, bucket: bool
):
    backup(stopped, copy)
    file = roots.topic_files(copy)[1]
    path = file.relative_to(copy).as_posix()
    KINDS[kind](file)
    before = roots.content_of(copy)
    target = ObjectRoot(MemoryStore("restored")) if bucket else tmp_path / "restored"
    planned = restore(copy, target, dry_run=True)
    if kind in FORESEEN:
        check_named(planned, path)
    check_named(restore(copy, target), path)
    assert roots.content_of(copy) == before
    assert [finding.place for finding in check(target).findings] == [path]
    if not bucket:
        file.write_bytes((stopped / path).read_bytes())
        (tmp_path / "restored" / path).write_bytes(file.read_bytes())
        assert roots.values(tmp_path / "restored") == expected()


@pytest.mark.parametrize("kind", ["flipped", "cut", "empty"])
def test_a_restore_of_a_backup_with_a_damaged_log_leaves_the_table_out_and_names_it(
    stopped: Path, copy: Path, tmp_path: Path, kind: str
):
    backup(stopped, copy)
    for file in (copy / "topics" / TOPIC / "_delta_log").glob("0*"):
        KINDS[kind](file)
    planned = restore(copy, tmp_path / "restored", dry_run=True)
    report = restore(copy, tmp_path / "restored")
    assert [name for name, _ in report.left_out] == [name for name, _ in planned.left_out] == [TOPIC]
    assert (planned.exit_code, report.exit_code) == (1, 1)
