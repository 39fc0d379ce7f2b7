"""Checkpoint: written where it is due and nowhere else, and never beside a server."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from delta_log import Log, Record, Settings
from delta_log.maintenance.jobs_api import Maintenance
from jobs.tables import checkpoint
from tests.support.job_stage import TOPIC, by_delta_rs, finish, forget_checkpoints, start_job

QUIET = Settings(upkeep=False)
ROWS = [(number, b"%d" % number) for number in range(110)]
NAME = "_delta_log/*.checkpoint.parquet"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A topic of 110 commits, and one of few."""
    made = tmp_path / "root"
    with Log.open(made, settings=QUIET) as log:
        log.create_topic(TOPIC, 2)
        log.create_topic("calm")
        for _, value in ROWS:
            log.append(TOPIC, [Record(value, partition=0)])
            log.flush(TOPIC)
    forget_checkpoints(made)
    return made


def files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in (root / "topics").rglob("*") if path.is_file()}


def run(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict, list[str]]:
    capsys.readouterr()
    code = checkpoint.main(["--data", str(root), "--all", *options])
    *lines, last = capsys.readouterr().out.splitlines()
    return code, json.loads(last), lines


def test_it_is_written_where_it_is_due_and_nothing_else_changes(root: Path, capsys):
    before = files(root)
    version = Maintenance.open(root).topic(TOPIC).version
    code, dry, planned = run(root, capsys, "--dry-run")
    assert (code, files(root)) == (0, before)
    code, summary, lines = run(root, capsys)
    assert (code, lines, summary["topics"]) == (0, planned, dry["topics"])
    assert summary["topics"] == {"calm": {"checkpoints": 0}, TOPIC: {"checkpoints": 1}}
    new = {f"topics/{TOPIC}/_delta_log/{name}" for name in (f"{version:020d}.checkpoint.parquet", "_last_checkpoint")}
    assert files(root) == before | new
    assert by_delta_rs(root)[0] == ROWS
    assert run(root, capsys)[1]["topics"][TOPIC] == {"checkpoints": 0}
    assert files(root) == before | new
    with Log.open(root, settings=QUIET) as log:
        assert [(each.offset, each.value) for each in log.read(TOPIC, 0, 0).records()] == ROWS


def test_a_killed_one_leaves_a_checkpoint_that_the_next_finds_and_a_table_that_reads_alike(root: Path, capsys):
    code, _, said = finish(start_job("checkpoint", root, "--all", step="checkpoint.written"))
    assert code == -signal.SIGKILL, said
    (written,) = (root / "topics" / TOPIC).glob(NAME)
    assert not (written.parent / "_last_checkpoint").exists()
    assert by_delta_rs(root)[0] == ROWS
    code, summary, _ = run(root, capsys)
    assert (code, summary["topics"][TOPIC]) == (0, {"checkpoints": 0})
    assert list((root / "topics" / TOPIC).glob(NAME)) == [written]
    assert by_delta_rs(root)[0] == ROWS


def test_beside_a_server_it_is_refused(root: Path, capsys):
    before = files(root)
    with Log.open(root, settings=QUIET):
        code, summary, lines = run(root, capsys)
        assert (code, summary["outcome"], lines) == (3, "refused", [])
        assert run(root, capsys, "--dry-run")[0] == 0
    assert files(root) == before
