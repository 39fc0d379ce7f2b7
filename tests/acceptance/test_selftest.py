"""`lakelog selftest` as people run it."""

import subprocess
import sys
from pathlib import Path


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lakelog", "selftest", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def test_it_kills_a_writer_and_finds_every_acknowledged_record_again(tmp_path: Path):
    done = run("--records", "200", "--show", "3", "--dir", str(tmp_path / "data"))
    assert done.returncode == 0, done.stderr
    assert "acknowledged records are there, each once, at its offset." in done.stdout
    assert "… and" in done.stdout
    assert (tmp_path / "data" / "topics" / "selftest" / "_delta_log").is_dir()


def test_it_refuses_a_folder_that_holds_something(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("keep me")
    done = run("--dir", str(tmp_path))
    assert done.returncode == 2
    assert "is not empty" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_it_fails_when_a_row_differs_from_what_was_acknowledged(monkeypatch, capsys, tmp_path: Path):
    from delta_log.fetch import sql as table_queries
    from lakelog.cli.main import main

    read = table_queries.read_table

    def damaged(location, columns):
        return read(location, columns).slice(1)

    monkeypatch.setattr(table_queries, "read_table", damaged)
    assert main(["selftest", "--records", "20", "--dir", str(tmp_path / "data")]) == 1
    assert "differ" in capsys.readouterr().err
