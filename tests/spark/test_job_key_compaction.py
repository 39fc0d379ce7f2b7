"""Key compaction on Spark: executors sift keys and write files, beside a server that folds and goes on writing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from delta_log.maintenance.compaction.superseded import SiftOrder, gather, spread
from delta_log.maintenance.jobs_api import Maintenance
from jobs.spark.engine import SparkEngine
from jobs.tables import audit, key_compaction
from tests.support.job_stage import TOPIC, by_delta_rs, by_http, by_spark, finish, let_time_pass, start_job
from tests.support.keyed_stage import KeyedWriter, check_compacted, check_compacted_so_far, create_compacted, marks
from tests.support.serving import Server, serving


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    with serving(root) as running:
        yield running


def test_executors_find_what_leaves_and_write_what_stays_beside_a_server_that_folds_and_writes(
    spark: SparkSession, server: Server, root: Path, capsys: pytest.CaptureFixture[str]
):
    """A run without Spark at the same time besides: each pass is made once, by one of them."""
    writer = KeyedWriter()
    create_compacted(server, lakelog_fold_files=2)
    writer.put(server.url, 5)
    with writer.writing(server.url):
        writer.go_on()
        let_time_pass(root)
        beside = start_job("key_compaction", root, "--all")
        capsys.readouterr()
        assert key_compaction.main(["--data", str(root), "--all"]) == 0
        summary = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert summary["engine"] == "spark"
        code, other, said = finish(beside)
        assert code == 0, said
        removed = summary["topics"][TOPIC]["records_removed"] + other["topics"][TOPIC]["records_removed"]
        check_compacted_so_far(by_spark(spark, root), writer)
        check_compacted_so_far(by_http(server.url), writer)
    assert removed > 0
    assert server.terminate() == 0
    clean = {partition: each.dirty_from for partition, each in enumerate(marks(root))}
    check_compacted(by_spark(spark, root), writer, clean)
    check_compacted(by_delta_rs(root), writer, clean)
    assert audit.main(["--data", str(root), "--all", "--engine", "local"]) == 0


def test_what_is_wrong_on_an_executor_reaches_the_driver_in_words(spark: SparkSession, server: Server, root: Path):
    """And every bucket is gathered, those that nothing was put into as well."""
    create_compacted(server)
    engine = SparkEngine("lakelog tests", None)
    KeyedWriter().put(server.url, 2)
    assert server.terminate() == 0
    files = list(Maintenance.open(root).topic(TOPIC).ground.table.snapshot.all_files())
    orders = [SiftOrder(str(root), f"topics/{TOPIC}", (file,), 0, 0, 0, 5) for file in files]
    (root / "topics" / TOPIC / files[0].path).unlink()
    verdicts = list(engine.exchange(spread, orders, gather, 5))
    engine.close()
    assert sorted(verdict.bucket for verdict in verdicts) == [0, 1, 2, 3, 4]
    (trouble,) = [trouble for verdict in verdicts for trouble in verdict.troubles]
    assert (trouble.what, trouble.path) == ("missing", f"topics/{TOPIC}/{files[0].path}")
