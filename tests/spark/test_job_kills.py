"""A job that is killed at any of its steps, beside a server that goes on writing, and run again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.job_stage import (
    DAY,
    TOPIC,
    Writer,
    by_delta_rs,
    by_http,
    by_spark,
    check_present,
    check_present_so_far,
    check_young_ones_stay,
    create,
    finish,
    let_time_pass,
    log_starts,
    now_ms,
    run_job,
    start_job,
)
from tests.support.job_topics import fold_days_ago
from tests.support.serving import Server, serving, wait_for

COMPACTION = (
    "store.staged",
    "store.renamed",
    "compaction.file_written",
    "store.linked",
    "table.committed",
    "compaction.committed",
)
RETENTION = (
    "store.staged",
    "store.linked",
    "retention.start_moved",
    "table.committed",
    "retention.files_left",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    with serving(root) as running:
        yield running


def kill(job: str, root: Path, step: str, *options: object) -> None:
    """At its first hit of a step."""
    code, _, said = finish(start_job(job, root, "--all", *options, step=step))
    assert code == -signal.SIGKILL, f"{step} was not hit: {said}"


def run(job: str, root: Path, *options: object) -> dict[str, int]:
    code, summary, said = run_job(job, root, "--all", *options)
    assert code == 0, said
    return summary["topics"][TOPIC]


def test_a_killed_compaction_loses_nothing_and_the_next_one_ends_its_work(
    spark: SparkSession, server: Server, root: Path
):
    writer = Writer()
    create(server)
    for step in COMPACTION:
        writer.write(server.url, 3)
        let_time_pass(root)
        with writer.writing(server.url):
            kill("compaction", root, step, "--min-age", "0s")
            check_present_so_far(by_delta_rs(root), writer)
            assert run("compaction", root, "--min-age", "0s")["given_up"] == 0
        check_present(by_http(server.url), writer)
    assert server.terminate() == 0
    check_present(by_delta_rs(root), writer)
    check_present(by_spark(spark, root), writer)


def test_a_killed_retention_removes_nothing_young_and_the_next_one_ends_its_work(
    spark: SparkSession, server: Server, root: Path
):
    """Old records are followed by young ones in topics of their own, as what is behind young ones stays with them."""
    writers = [Writer(f"at.{step.partition('.')[2]}.{step.partition('.')[0]}") for step in RETENTION]
    starts: dict[str, list[int]] = {}
    for step, writer in zip(RETENTION, writers, strict=True):
        topic, options = writer.topic, ("--topic", writer.topic)
        create(server, topic, retention_ms=DAY)
        writer.write(server.url, 2, timestamp=now_ms() - 2 * DAY)
        starts[topic] = [len(writer.acked[partition]) for partition in (0, 1)]
        with writer.writing(server.url):
            code, _, said = finish(start_job("retention", root, *options, step=step))
            assert code == -signal.SIGKILL, f"{step} was not hit: {said}"
            check_young_ones_stay(by_delta_rs(root, topic), writer, starts[topic])
            assert run_job("retention", root, *options)[0] == 0
            wait_for(lambda at=starts[topic], of=topic: log_starts(server.url, of) == at, "that the server notices")
        check_present(by_http(server.url, topic), writer, starts[topic])
    assert server.terminate() == 0
    for writer in writers:
        check_present(by_delta_rs(root, writer.topic), writer, starts[writer.topic])
    check_present(by_spark(spark, root, writers[-1].topic), writers[-1], starts[writers[-1].topic])


def test_a_killed_deletion_of_bytes_is_ended_by_the_next_run(root: Path):
    """Of files that were folded away three days ago; what they held is in the table as before."""
    fold_days_ago(root)
    before = by_delta_rs(root)
    assert len(before[0]) == 6
    assert len(list(root.glob("topics/*/partition=0/*.parquet"))) == 7
    kill("retention", root, "retention.file_deleted")
    assert len(list(root.glob("topics/*/partition=0/*.parquet"))) == 6
    assert run("retention", root, "--dry-run")["files_deleted"] == 5
    assert run("retention", root)["files_deleted"] == 5
    assert run("retention", root)["files_deleted"] == 0
    assert len(list(root.glob("topics/*/partition=0/*.parquet"))) == 1
    assert by_delta_rs(root) == before
