"""Compaction on the tables of a server that goes on writing: many files become few, and every record stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delta_log.maintenance.jobs_api import Maintenance
from jobs.tables import audit, compaction
from tests.support.job_stage import (
    DAY,
    TOPIC,
    Writer,
    by_delta_rs,
    by_http,
    by_spark,
    check_present,
    check_present_so_far,
    create,
    finish,
    let_time_pass,
    now_ms,
    start_job,
)
from tests.support.numbered import Numbered
from tests.support.serving import Server, serving


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    with serving(root) as running:
        yield running


def run(capsys: pytest.CaptureFixture[str], root: Path, *options: str) -> dict:
    """In this process, whose session the job takes."""
    capsys.readouterr()
    code = compaction.main(["--data", str(root), "--all", "--min-age", "0s", *options])
    *_, last = capsys.readouterr().out.splitlines()
    summary = json.loads(last)
    assert code == 0, summary
    return summary


def files(root: Path) -> list[int]:
    snapshot = Maintenance.open(root).topic(TOPIC)._table.snapshot
    return [len(snapshot.files(partition)) for partition in range(2)]


def test_a_numbered_request_is_known_after_its_rows_were_merged(
    spark: SparkSession,
    server: Server,
    root: Path,
    capsys: pytest.CaptureFixture[str],
):
    create(server)
    producer = Numbered(TOPIC)
    for _ in range(7):
        producer.send(server.url)
    summary = run(capsys, root)
    assert (summary["engine"], summary["topics"][TOPIC]["files_written"]) == ("spark", 2)
    producer.check_repeats(server.url)
    server.kill()
    with serving(root) as again:
        producer.check_repeats(again.url)
        producer.send(again.url)
        producer.check_repeats(again.url)


def test_executors_merge_beside_a_server_that_folds_and_writes(
    spark: SparkSession, server: Server, root: Path, capsys: pytest.CaptureFixture[str]
):
    """Two runs at once besides: whoever comes second gives the bin up."""
    writer = Writer()
    create(server, lakelog_fold_files=5)
    writer.write(server.url, 12)
    merged = 0
    with writer.writing(server.url):
        for _ in range(2):
            writer.go_on()
            beside = start_job("compaction", root, "--all", "--min-age", "0s")
            summary = run(capsys, root)
            code, other, said = finish(beside)
            assert code == 0, said
            assert summary["engine"] == "spark"
            merged += summary["topics"][TOPIC]["files_written"] + other["topics"][TOPIC]["files_written"]
        assert audit.main(["--data", str(root), "--all"]) == 0, capsys.readouterr().out
        check_present_so_far(by_spark(spark, root), writer)
    assert merged > 0
    check_present(by_http(server.url), writer)
    assert server.terminate() == 0
    check_present(by_delta_rs(root), writer)
    check_present(by_spark(spark, root), writer)


def test_a_dry_run_prints_the_very_plan_that_the_run_then_carries_out(
    spark: SparkSession, server: Server, root: Path, capsys: pytest.CaptureFixture[str]
):
    writer = Writer()
    create(server)
    writer.write(server.url, 6)
    let_time_pass(root)
    assert files(root) == [6, 6]
    options = ["--data", str(root), "--topic", TOPIC, "--min-age", "0s"]
    capsys.readouterr()
    assert compaction.main([*options, "--dry-run"]) == 0
    *planned, dry = capsys.readouterr().out.splitlines()
    assert files(root) == [6, 6]
    assert compaction.main(options) == 0
    *carried_out, wet = capsys.readouterr().out.splitlines()
    assert planned == carried_out
    assert f"topic {TOPIC}" in planned
    assert sum(line.startswith("  partition=") for line in planned) == 12
    assert files(root) == [1, 1]
    expected, done = (json.loads(line)["topics"][TOPIC] for line in (dry, wet))
    assert done.pop("bytes_written") > 0
    assert expected.pop("bytes_written") == 0
    assert done == expected
    assert run(capsys, root)["topics"][TOPIC]["bins"] == 0
    check_present(by_http(server.url), writer)


def test_no_file_spans_more_than_half_of_the_retention(
    spark: SparkSession, server: Server, root: Path, capsys: pytest.CaptureFixture[str]
):
    writer = Writer()
    create(server, segment_ms=3 * DAY, retention_ms=4 * DAY)
    start = now_ms() - 3 * DAY - DAY // 2
    for day in range(4):
        writer.write(server.url, 3, timestamp=start + day * DAY)
    let_time_pass(root)
    run(capsys, root)
    snapshot = Maintenance.open(root).topic(TOPIC)._table.snapshot
    spans = [file.max_timestamp_ms - file.min_timestamp_ms for file in snapshot.all_files()]
    assert len(spans) == 4
    assert max(spans) == 2 * DAY
    check_present(by_spark(spark, root), writer)
