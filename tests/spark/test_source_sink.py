"""`format("lakelog")` of writers: rows with the columns of Spark's Kafka sink become records of topics."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from jobs.source import register
from tests.support.serving import serving
from tests.support.source_stage import Stage


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


def test_a_stream_from_topic_to_topic_is_what_was_read(spark: SparkSession, stage: Stage, tmp_path: Path):
    stage.create("from", 2)
    stage.create("to", 2)
    for first in (0, 40):
        stage.fill("from", 40, partitions=2, first=first)
        source = spark.readStream.format("lakelog").option("subscribe", "from").option("startingOffsets", "earliest")
        query = (
            source.load(stage.path)
            .writeStream.format("lakelog")
            .options(server=stage.url, topic="to", checkpointLocation=str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
    for partition in range(2):
        assert [r["value"] for r in stage.read("to", partition)] == [r["value"] for r in stage.read("from", partition)]


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
    assert stage.read("none", 0) == []
