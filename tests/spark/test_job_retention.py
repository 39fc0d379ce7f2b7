"""Retention on the tables of a server that goes on writing: what the policy says leaves, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from jobs.tables import retention
from tests.support.job_stage import (
    DAY,
    TOPIC,
    Writer,
    by_delta_rs,
    by_http,
    by_spark,
    check_present,
    create,
    finish,
    log_starts,
    now_ms,
    run_job,
    start_job,
)
from tests.support.serving import Server, serving, wait_for


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    with serving(root) as running:
        yield running


def test_old_records_leave_and_young_ones_stay_beside_a_server_that_writes(
    spark: SparkSession, server: Server, root: Path
):
    """Three runs, two of them at once; the server notices, by its log starts and to its readers."""
    writer = Writer()
    create(server, retention_ms=DAY, lakelog_fold_files=5)
    writer.write(server.url, 12, timestamp=now_ms() - 2 * DAY)
    kept_from = [len(writer.acked[partition]) for partition in (0, 1)]
    with writer.writing(server.url):
        both = [start_job("retention", root, "--all", "--server", server.url) for _ in range(2)]
        done = [finish(each) for each in both]
        assert [code for code, _, _ in done] == [0, 0], done
        assert sum(summary["topics"][TOPIC]["records"] for _, summary, _ in done) == sum(kept_from)
        wait_for(lambda: log_starts(server.url) == kept_from, "that the server notices")
        assert run_job("retention", root, "--topic", TOPIC)[1]["topics"][TOPIC]["files"] == 0
        refused = httpx.get(f"{server.url}/topics/{TOPIC}/partitions/0/records", params={"offset": kept_from[0] - 1})
        assert refused.status_code == 416 or refused.json()["error_code"] // 100 in (404, 416), refused.text
    check_present(by_http(server.url), writer, kept_from)
    assert server.terminate() == 0
    check_present(by_delta_rs(root), writer, kept_from)
    check_present(by_spark(spark, root), writer, kept_from)


def test_executors_look_through_topics_and_what_is_due_leaves(
    spark: SparkSession,
    server: Server,
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """An idle topic loses all it has; its offsets go on."""
    monkeypatch.setattr(retention, "_TOPICS_OF_A_TASK", 1)
    old, young = Writer("old"), Writer("young")
    for writer, age in ((old, 2 * DAY), (young, 0)):
        create(server, writer.topic, retention_ms=DAY)
        writer.write(server.url, 3, timestamp=now_ms() - age)
    capsys.readouterr()
    assert retention.main(["--data", str(root), "--all", "--engine", "spark"]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {name: counts["records"] for name, counts in summary["topics"].items()} == {"old": 18}
    wait_for(lambda: log_starts(server.url, "old") == [9, 9], "that the server notices")
    assert by_http(server.url, "old") == by_spark(spark, root, "old") == {0: [], 1: []}
    check_present(by_spark(spark, root, "young"), young)
    old.write(server.url, 1)
    check_present(by_http(server.url, "old"), old, [9, 9])


def test_sizes_are_kept_to(spark: SparkSession, server: Server, root: Path):
    writer = Writer()
    create(server, retention_bytes=4000)
    writer.write(server.url, 10)
    code, summary, said = run_job("retention", root, "--all")
    assert code == 0, said
    counts = summary["topics"][TOPIC]
    kept = [len(rows) for rows in by_spark(spark, root).values()]
    assert sum(kept) == 60 - counts["records"]
    assert 0 < kept[0] < 30
    starts = [30 - each for each in kept]
    wait_for(lambda: log_starts(server.url) == starts, "that the server notices")
    check_present(by_spark(spark, root), writer, starts)
    check_present(by_http(server.url), writer, starts)
