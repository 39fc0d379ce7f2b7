"""Vacuum: what it clears away, what it leaves, and that no server is beside it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from delta_log import Log, Record, Settings
from delta_log.maintenance.jobs_api import Maintenance
from delta_log.model.errors import RootInUse
from jobs.tables import vacuum
from tests.support.job_stage import DAY, TOPIC, by_delta_rs, finish, forget_checkpoints, now_ms, start_job

QUIET = Settings(upkeep=False)
ROWS = [(number, b"%d" % number) for number in range(130)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """130 commits of three days ago, folded away, and a stray file of as long ago."""
    made = tmp_path / "root"
    with Log.open(made, settings=QUIET, clock_ms=lambda: now_ms() - 3 * DAY) as log:
        log.create_topic(TOPIC, 2, {"retention.ms": -1, "lakelog.fold.files": 2})
        for _, value in ROWS:
            log.append(TOPIC, [Record(value, partition=0)])
            log.flush(TOPIC)
        assert log.fold(TOPIC)
    forget_checkpoints(made)
    (folder(made) / f"{0:020d}-job-{'a' * 32}.parquet").write_bytes(b"stray")
    long_ago = (now_ms() - 3 * DAY) / 1000
    for path in made.glob("topics/*/*/*"):
        os.utime(path, (long_ago, long_ago))
    return made


def folder(root: Path) -> Path:
    return root / "topics" / TOPIC / "partition=0"


def entries(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "topics" / TOPIC / "_delta_log").glob("*.json"))


def run(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict, list[str]]:
    capsys.readouterr()
    code = vacuum.main(["--data", str(root), "--all", *options])
    *lines, last = capsys.readouterr().out.splitlines()
    return code, json.loads(last), lines


def test_what_nobody_reads_goes_and_what_was_stored_stays(root: Path, capsys):
    before = by_delta_rs(root)
    assert before[0] == ROWS
    written = len(list(folder(root).iterdir()))
    code, dry, planned = run(root, capsys, "--dry-run")
    assert len(list(folder(root).iterdir())) == written
    code, summary, lines = run(root, capsys)
    assert (code, lines, summary["topics"]) == (0, planned, dry["topics"])
    counts = summary["topics"][TOPIC]
    assert (counts["checkpoints"], counts["files_deleted"]) == (1, written - 1)
    assert len(list(folder(root).iterdir())) == 1
    assert by_delta_rs(root) == before
    length = len(entries(root))
    assert run(root, capsys)[1]["topics"][TOPIC]["entries_deleted"] == 131
    assert len(entries(root)) == length - 131 > 0
    assert by_delta_rs(root) == before
    assert run(root, capsys)[1]["topics"][TOPIC] == dict.fromkeys(counts, 0)
    with Log.open(root, settings=QUIET) as log:
        assert [(each.offset, each.value) for each in log.read(TOPIC, 0, 0).records()] == ROWS


@pytest.mark.parametrize("step", ["checkpoint.written", "retention.file_deleted"])
def test_a_killed_vacuum_is_ended_by_the_next(root: Path, capsys, step: str):
    code, _, said = finish(start_job("vacuum", root, "--all", step=step))
    assert code == -signal.SIGKILL, said
    assert run(root, capsys)[0] == run(root, capsys)[0] == 0
    assert len(list(folder(root).iterdir())) == 1
    assert by_delta_rs(root)[0] == ROWS


def test_a_log_that_was_shortened_in_part_can_be_read_and_is_shortened_further(root: Path, capsys):
    run(root, capsys)
    code, _, said = finish(start_job("vacuum", root, "--all", step="vacuum.entry_deleted", hit=40))
    assert code == -signal.SIGKILL, said
    assert by_delta_rs(root)[0] == ROWS
    assert run(root, capsys)[1]["topics"][TOPIC]["entries_deleted"] == 91
    assert by_delta_rs(root)[0] == ROWS


def test_what_was_deleted_before_an_interrupt_is_counted(root: Path, capsys):
    run(root, capsys)
    hits: list[str] = []

    def interrupt(step: str) -> None:
        hits.append(step)
        if hits.count("vacuum.entry_deleted") == 40:
            raise KeyboardInterrupt

    before = len(entries(root))
    code = vacuum.main(["--data", str(root), "--all"], probe=interrupt)
    counts = json.loads(capsys.readouterr().out.splitlines()[-1])["topics"][TOPIC]
    assert (code, counts["entries_deleted"], before - len(entries(root))) == (130, 40, 40)


@pytest.mark.parametrize("days", [8, -8])
def test_a_wrong_clock_is_refused_and_nothing_is_deleted(root: Path, capsys, days: int):
    before = sorted(root.rglob("*"))
    capsys.readouterr()
    code = vacuum.main(["--data", str(root), "--all"], clock_ms=lambda: now_ms() + days * DAY)
    said = capsys.readouterr()
    assert (code, json.loads(said.out)["outcome"]) == (3, "refused")
    assert "clock" in said.err
    assert sorted(root.rglob("*")) == before
    with Log.open(root, settings=QUIET):
        """And it let go of the root."""


def test_of_two_at_once_one_works_and_the_other_is_refused(root: Path, capsys):
    with Maintenance.open(root).hold():
        code, summary, lines = run(root, capsys)
    assert (code, summary["outcome"], lines) == (3, "refused", [])
    assert by_delta_rs(root)[0] == ROWS
    assert run(root, capsys)[0] == 0


def test_beside_an_owner_it_is_refused(root: Path, capsys):
    with Log.open(root, settings=QUIET):
        code, summary, lines = run(root, capsys)
        assert (code, summary["outcome"], lines) == (3, "refused", [])
        assert "is being written by" in summary["error"]
        assert run(root, capsys, "--dry-run")[0] == 0


def test_an_owner_is_kept_out_while_it_works(root: Path):
    with Maintenance.open(root).hold(), pytest.raises(RootInUse):
        Log.open(root, settings=QUIET)
    Log.open(root, settings=QUIET).close()
