"""Spark over a root in a bucket, beside the server that writes there: the source, jobs on executors, and streams."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from delta_log.model.store_location import show_options
from delta_log.stores.place_arguments import OPTIONS_VARIABLE
from jobs.consume import job as consume
from jobs.source.source import register
from jobs.tables import audit, compaction, key_compaction
from tests.support import consume_functions as functions
from tests.support.s3_server import S3Server, as_options
from tests.support.serving import serving
from tests.support.source_stage import Stage, writing_on

FUNCTIONS = "tests.support.consume_functions"


@pytest.fixture
def url(s3_server: S3Server) -> str:
    return s3_server.root(f"spark/{uuid.uuid4().hex}")


@pytest.fixture
def stage(s3_server: S3Server, url: str, tmp_path: Path) -> Iterator[Stage]:
    config = tmp_path / "server.toml"
    pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in s3_server.options.items())
    config.write_text(f"store_option = {{ {pairs} }}\n")
    with serving(url, config=config, topic_defaults={"lakelog.commit.interval.ms": 100}) as server:
        stage = Stage(server, url)
        yield stage
        stage.close()


@pytest.fixture
def told(spark: SparkSession, s3_server: S3Server) -> Iterator[None]:
    """Workers have what the store must be told in their environment, as a cluster gives it to them."""
    spark.sparkContext.environment[OPTIONS_VARIABLE] = show_options(s3_server.options)
    register(spark)
    yield
    forget_store(spark)


def forget_store(spark: SparkSession) -> None:
    spark.sparkContext.environment.pop(OPTIONS_VARIABLE, None)
    register(spark)


def offsets(spark: SparkSession, **options: str) -> list[tuple[int, int]]:
    frame = spark.read.format("lakelog").options(**options).load()
    return [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]


def run(job: Any, url: str, s3_server: S3Server, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    code = job.main([f"--data={url}", *as_options(s3_server.options), *words])
    said = capsys.readouterr()
    assert s3_server.options["aws_secret_access_key"] not in said.out + said.err
    summary = json.loads(said.out.splitlines()[-1])
    assert (code, summary["outcome"], summary["root"]) == (0, "done", url), said.err
    return summary


def test_spark_reads_merges_and_follows_topics_of_a_bucket_beside_its_server(
    spark: SparkSession, told: None, stage: Stage, url: str, s3_server: S3Server, capsys
):
    stage.create("orders", 2, lakelog_fold_files=1000)
    stage.create("prices", 1, cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, lakelog_fold_files=1000)
    for number in range(4):
        stage.fill("orders", 10, partitions=2, first=10 * number)
        stage.write("prices", [{"key": b"tea", "value": b"%d" % number}])
    expected = [(partition, offset) for partition in range(2) for offset in range(20)]
    for ground in ("tables", "both"):
        assert offsets(spark, **stage.grounds[ground], subscribe="orders") == expected, ground
    with writing_on(lambda n: stage.fill("orders", 2, partitions=2, first=40 + 2 * n, wait=False)):
        on_executors = ("--all", "--engine=spark")
        merged = run(compaction, url, s3_server, capsys, *on_executors, "--min-age=0s")["topics"]["orders"]
        assert merged["files_merged"] >= 8
        assert run(key_compaction, url, s3_server, capsys, *on_executors)["topics"]["prices"]["records_removed"] == 3
        assert run(audit, url, s3_server, capsys, *on_executors)["topics"]["orders"]["findings"] == 0
    assert offsets(spark, path=url, subscribe="prices") == [(0, 3)]

    everything = offsets(spark, **stage.grounds["both"], subscribe="orders")
    forget_store(spark)
    functions.BATCHES.clear()
    group = ("--group=readers", "--topic=orders", f"--module={FUNCTIONS}.keep", "--available-now")
    summary = run(consume, url, s3_server, capsys, *group, f"--server={stage.url}")
    assert sorted((partition, offset) for batch in functions.BATCHES for _, partition, offset in batch) == everything
    assert summary["topics"]["orders"]["offsets"] == len(everything) > 40
