"""`format("lakelog")` of writers: rows with the columns of Spark's Kafka sink become records of topics."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jobs.source.source import register
from tests.architecture.project_files import ROOT
from tests.support.killed_writes import ATTEMPTS, LOT, ROWS
from tests.support.serving import serving
from tests.support.source_stage import Stage
from tests.support.streams import ended


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    register(spark)
    root = tmp_path_factory.mktemp("sink") / "root"
    with serving(root) as server:
        stage = Stage(server, root)
        yield stage
        stage.close()


def write(frame: DataFrame, **options: Any) -> None:
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    frame.write.format("lakelog").options(**given).mode("append").save()


def test_rows_become_records_as_they_are(spark: SparkSession, stage: Stage):
    """Keys and values as bytes or text, null and empty; headers, partitions, topics; other columns are left."""
    stage.create("rows", 2)
    stage.create("others", 1)
    schema = """key STRING, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>, topic STRING,
        partition INT, note STRING"""
    rows = [
        ("k", b"\x00\xff", [("h", b"1"), ("h", None)], "rows", 1, "x"),
        ("", b"", [], "rows", 1, None),
        (None, None, None, "rows", 0, None),
        ("o", b"v", None, "others", None, None),
    ]
    write(spark.createDataFrame(rows, schema).coalesce(1), server=stage.url)
    found = [(r["key"], r["value"], r["headers"], r["offset"]) for r in stage.read("rows", 1)]
    assert found == [(b"k", b"\x00\xff", [("h", b"1"), ("h", None)], 0), (b"", b"", [], 1)]
    assert [(r["key"], r["value"]) for r in stage.read("rows", 0)] == [(None, None)]
    assert [(r["key"], r["value"]) for r in stage.read("others", 0)] == [(b"o", b"v")]


def test_many_rows_are_stored_once_and_in_the_order_of_their_task(spark: SparkSession, stage: Stage):
    stage.create("many", 1)
    frame = spark.range(0, 50_000, 1, 2).selectExpr("CAST(id AS STRING) AS value", "'elsewhere' AS topic")
    write(frame, kafka__bootstrap__servers=stage.url, topic="many")
    found = [int(row["value"]) for row in stage.read("many", 0)]
    assert sorted(found) == list(range(50_000))
    for half in (range(25_000), range(25_000, 50_000)):
        assert [number for number in found if number in half] == list(half)


def test_a_stream_from_topic_to_topic_is_what_was_read_and_its_sink_knows_its_batches(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    stage.create("origin", 2)
    stage.create("to", 2)
    for first in (0, 40, 80):
        if first == 80:  # a new checkpoint, whose batch 0 the sink has seen
            tmp_path /= "another"
        else:
            stage.fill("origin", 40, partitions=2, first=first)
        source = spark.readStream.format("lakelog").option("subscribe", "origin").option("startingOffsets", "earliest")
        sink = source.load(stage.path).writeStream.format("lakelog").trigger(availableNow=True)
        sink = sink.options(server=stage.url, topic="to", checkpointLocation=str(tmp_path), txnAppId="the copy")
        ended(sink.start)
    for partition in range(2):
        assert [r["value"] for r in stage.read("to", partition)] == [
            r["value"] for r in stage.read("origin", partition)
        ]


def test_a_numbered_batch_is_stored_once_by_whichever_frame_it_comes(spark: SparkSession, stage: Stage):
    """Also from `foreachBatch`, as with Delta's options of these names."""
    stage.create("once", 1)
    for number, last, tasks in [(0, 10, 1), (0, 10, 3), (1, 15, 2), (0, 10, 1), (1, 15, 4), (3, 20, 1), (2, 20, 1)]:
        first = 0 if number == 0 else 10 if number == 1 else 15
        frame = spark.range(first, last, 1, tasks).selectExpr("CAST(id AS STRING) AS value")
        write(frame, server=stage.url, topic="once", txnAppId="totals", txnVersion=number)
    assert [int(row["value"]) for row in stage.read("once", 0)] == list(range(20))
    empty = spark.range(0).selectExpr("CAST(id AS STRING) AS value")
    write(empty, server=stage.url, topic="once", txnAppId="totals", txnVersion=4)


def test_a_stream_of_changes_is_stored_by_its_batches_as_spark_refuses_the_mode_to_sources_in_python(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    """`append` and `complete` it takes; should it take `update` one day, the documents are to say so."""
    stage.create("seen", 1)
    stage.create("changes", 1)
    stage.fill("seen", 3)
    frame = spark.readStream.format("lakelog").option("subscribe", "seen").option("startingOffsets", "earliest")
    counts = (
        frame.load(stage.path).groupBy("topic").count().selectExpr("topic AS key", "CAST(count AS STRING) AS value")
    )

    def put(batch: DataFrame, number: int) -> None:
        write(batch, server=stage.url, topic="changes", txnAppId="counts", txnVersion=number)

    def run(writer: Any, name: str) -> None:
        writer.outputMode("update").option("checkpointLocation", str(tmp_path / name)).trigger(availableNow=True)
        ended(writer.start)

    with pytest.raises(PySparkException, match="lakelog does not support Update mode"):
        run(counts.writeStream.format("lakelog").options(server=stage.url, topic="changes"), "refused")
    run(counts.writeStream.foreachBatch(put), "put")
    assert [(row["key"], row["value"]) for row in stage.read("changes", 0)] == [(b"seen", b"3")]


def test_what_cannot_be_stored_is_refused_and_nothing_is(spark: SparkSession, stage: Stage):
    stage.create("none", 1)
    value = spark.createDataFrame([(b"v",)], "value BINARY")
    for frame, options, message in [
        (value, {"server": stage.url}, "say where the rows go"),
        (value, {"topic": "none"}, "say which server"),
        (value, {"topic": "none", "server": "broker:9092"}, "address of a lakelog server"),
        (value, {"topic": "none", "server": stage.url, "topics": "x"}, r"did you mean topic\?"),
        (value.withColumnRenamed("value", "v"), {"topic": "none", "server": stage.url}, "no column 'value'"),
        (spark.range(1).selectExpr("id AS value"), {"topic": "none", "server": stage.url}, "must be binary or string"),
        (value, {"topic": "nowhere", "server": stage.url}, "there is no topic 'nowhere'"),
        (value.selectExpr("value", "CAST(null AS STRING) AS topic"), {"server": stage.url}, "a row names no topic"),
        (value.selectExpr("value", "7 AS partition"), {"topic": "none", "server": stage.url}, "has no partition 7"),
    ]:
        with pytest.raises(PySparkException, match=message):
            write(frame, **options)
    with pytest.raises(PySparkException, match="only be appended to"):
        value.write.format("lakelog").options(server=stage.url, topic="none").mode("overwrite").save()
    with pytest.raises(PySparkException, match="say which by the option server"):
        value.write.format("lakelog").option("topic", "none").mode("append").save(stage.path)
    assert stage.read("none", 0) == []


def test_when_workers_are_killed_and_batches_come_again_nothing_is_lost_and_a_stream_has_nothing_twice(
    stage: Stage, tmp_path: Path, record_property: Callable[[str, object], None]
):
    """SIGKILL for the Python workers in the middle of tasks, then for their daemon too.

    Spark runs the tasks again: in a batch without a number, what they had stored by then is stored twice. A batch of a
    stream is stored once, also when its checkpoint does not have it as committed, and it is cut otherwise by then.
    """
    stage.create("from", 2)
    stage.create("batch", 1)
    stage.create("stream", 2)
    stage.fill("from", ROWS, partitions=2)
    program = [sys.executable, "-m", "tests.support.killed_writes", stage.url, stage.path, str(tmp_path)]
    done = subprocess.run(program, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    killed = json.loads(done.stdout.splitlines()[-1])
    assert len(killed["batch"]) == 2
    assert all([*killed["batch"], *killed["stream"]]), "somebody was killed each time"

    found = [int(row["value"]) for row in stage.read("batch", 0)]
    halves = [range(ROWS // 2), range(ROWS // 2, ROWS)]
    twice = sum(stored_again([number for number in found if number in half], half, runs=ATTEMPTS) for half in halves)
    record_property("stored again after two kills", f"{twice} of {ROWS}")
    assert 0 < twice == len(found) - ROWS

    record_property("times that the stream was started again", killed["failures"])
    record_property("requests that a kill left behind", killed["staged"] - ROWS // LOT)
    assert killed["staged"] > ROWS // LOT, "some of them were sent again"
    assert killed["staged again"] == 0, "the batch that came again was left out"
    for partition in range(2):
        assert [int(row["value"]) for row in stage.read("stream", partition)] == list(range(partition, ROWS, 2))


def stored_again(found: list[int], rows: Iterable[int], *, runs: int) -> int:
    """How many rows are there more than once; all are there, in their order whenever a task began anew."""
    rows, counts = list(rows), Counter(found)
    assert list(dict.fromkeys(found)) == rows, "as they came first"
    assert list(dict.fromkeys(reversed(found))) == rows[::-1], "as they came last"
    assert max(counts.values()) <= runs
    return len(found) - len(rows)
