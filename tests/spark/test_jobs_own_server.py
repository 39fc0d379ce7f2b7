"""Jobs with a root and no server: what driver and executors ask goes to a server of the job's own, by a Unix socket."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from delta_log import Log, Record, Settings
from delta_log.fetch.sql import read_table
from jobs.consume import job as consume
from jobs.materialize import job as materialize
from jobs.runner.server_connection import reached
from jobs.source.source import register

FUNCTIONS = "tests.support.consume_functions"
RECORDS = 40


@pytest.fixture
def root(tmp_path: Path, spark: SparkSession) -> Path:
    with Log.open(tmp_path / "root", settings=Settings(upkeep=False)) as log:
        for topic in ("orders", "copies"):
            log.create_topic(topic, 2)
        log.append("orders", [Record(b'{"n": %d}' % n, key=b"k%d" % n, partition=n % 2) for n in range(RECORDS)])
    return tmp_path / "root"


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="t-") as made:
        monkeypatch.setattr(tempfile, "tempdir", made)
        yield Path(made)


def run(job: Any, capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    capsys.readouterr()
    code = job.main([*map(str, words), "--available-now"])
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (code, summary["error"]) == (0, None)
    return summary


def test_a_copy_is_read_and_written_by_executors_through_the_socket(root: Path, temporary: Path, capsys):
    words = ["--data", root, "--group", "g", "--topic", "orders", "--to", "copies", "--delivery", "exactly-once"]
    for _ in range(2):  # the second finds its place again, though the socket is another one
        run(consume, capsys, *words, "--module", f"{FUNCTIONS}.upper")
    found = read_table(str(root / "topics" / "copies"), ["value"])["value"].to_pylist()
    assert sorted(found) == sorted(b'{"N": %d}' % n for n in range(RECORDS))
    assert not list(temporary.glob("lakelog-job-*"))


def test_a_table_is_made_of_a_topic_through_the_socket(root: Path, temporary: Path, tmp_path: Path, capsys):
    words = ["--data", root, "--group", "m", "--topic", "orders", "--format", "raw", "--table", tmp_path / "table"]
    run(materialize, capsys, *words)
    assert read_table(str(tmp_path / "table"), ["offset"]).num_rows == RECORDS
    assert not list(temporary.glob("lakelog-job-*"))


def test_executors_read_through_the_socket_alone(root: Path, temporary: Path, spark: SparkSession):
    register(spark)
    with reached(str(root), None) as url:
        assert url.startswith("http+unix://")
        assert [folder.parent for folder in temporary.glob("lakelog-job-*/server")] != []
        frame = spark.read.format("lakelog").option("server", url).option("subscribe", "orders").load()
        assert sorted(row["key"] for row in frame.select("key").collect()) == sorted(
            bytearray(b"k%d" % n) for n in range(RECORDS)
        )
