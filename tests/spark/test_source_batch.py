"""`spark.read.format("lakelog")`: what the server says is in its topics, by the options of Spark's Kafka source."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import StructType

from jobs.source.source import register
from tests.support.serving import serving
from tests.support.source_stage import Row, Stage, writing_on

GROUNDS = ["tables", "server", "both"]
NOW = 1_790_000_000_000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    """`plain`: 2 partitions of 100 numbered values each; `times`: a record a second."""
    register(spark)
    root = tmp_path_factory.mktemp("source") / "root"
    after = {"message.timestamp.after.max.ms": 1 << 50}
    with serving(root, topic_defaults=after) as server:
        stage = Stage(server, root)
        stage.create("plain", 2)
        stage.fill("plain", 200, partitions=2)
        stage.create("times", 1)
        stage.write("times", [{"value": b"%d" % n, "timestamp": NOW + 1000 * n} for n in range(10)])
        yield stage
        stage.close()


def load(spark: SparkSession, **options: Any) -> DataFrame:
    given = {name.replace("__", "."): str(value) for name, value in options.items()}
    return spark.read.format("lakelog").options(**given).load()


def rows_of(frame: DataFrame) -> list[Row]:
    """As they came; times as milliseconds."""
    millis = (F.unix_micros("timestamp") / 1000).cast("long")
    rows = [row.asDict(recursive=True) for row in frame.withColumn("timestamp", millis).collect()]
    for row in rows:
        if "headers" in row:
            row["headers"] = [(each["key"], each["value"]) for each in row["headers"] or ()]
    return rows


def offsets_of(frame: DataFrame) -> list[tuple[int, int]]:
    return [(row.partition, row.offset) for row in frame.select("partition", "offset").collect()]


@pytest.mark.parametrize("ground", GROUNDS)
def test_a_batch_is_what_http_reads_while_the_server_goes_on_writing(spark: SparkSession, stage: Stage, ground: str):
    """Every column, null and empty; nothing twice, nothing left out, in the order of the offsets."""
    topic = f"live-{ground}"
    stage.create(topic, 3, lakelog_fold_files=4)
    odd: list[Row] = [
        {"key": None, "value": None, "partition": 0},
        {"key": b"", "value": b"", "partition": 0, "headers": []},
        {
            "key": b"\x00\xff",
            "value": b"x" * 300_000,
            "partition": 0,
            "headers": [("a", b"1"), ("a", None), ("b", b"")],
        },
        {"key": b"k", "value": b"v", "partition": 0, "timestamp": NOW + 1},
    ]
    stage.write(topic, odd)
    with writing_on(lambda n: stage.fill(topic, 30, partitions=3, first=30 * n, wait=False)):
        stage.fill(topic, 30, partitions=3)
        frame = load(spark, **stage.grounds[ground], subscribe=topic, includeHeaders=True)
        rows = rows_of(frame)
    expected: list[Row] = []
    for partition in range(3):
        end = sum(row["partition"] == partition for row in rows)
        assert end >= 10
        expected += stage.read(topic, partition, end)
    assert rows == expected


@pytest.mark.parametrize("ground", ["tables", "server"])
def test_offsets_choose_what_is_read(spark: SparkSession, stage: Stage, ground: str):
    start, end = '{"plain":{"0":10,"1":-2}}', '{"plain":{"0":12,"1":3}}'
    chosen = load(spark, **stage.grounds[ground], subscribe="plain", startingOffsets=start, endingOffsets=end)
    assert offsets_of(chosen) == [(0, 10), (0, 11), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize("ground", ["tables", "server"])
def test_times_choose_what_is_read(spark: SparkSession, stage: Stage, ground: str):
    """From the first record at or after one, to below the first at or after another; or to the end."""
    where = stage.grounds[ground] | {"subscribe": "times"}
    between = load(spark, **where, startingTimestamp=NOW + 2500, endingTimestamp=NOW + 5000)
    assert offsets_of(between) == [(0, 3), (0, 4)]
    by_partition = '{"times":{"0":%d}}'
    each = load(spark, **where, startingOffsetsByTimestamp=by_partition % (NOW + 8000), endingTimestamp=NOW + 60_000)
    assert offsets_of(each) == [(0, 8), (0, 9)]
    late = load(spark, **where, startingTimestamp=NOW + 60_000, startingOffsetsByTimestampStrategy="latest")
    assert offsets_of(late) == []
    with pytest.raises(PySparkException, match="no record of times-0 is at or after"):
        load(spark, **where, startingTimestamp=NOW + 60_000).collect()


def test_a_pattern_or_an_assignment_chooses_what_is_read(spark: SparkSession, stage: Stage):
    for where in (stage.grounds["tables"], stage.grounds["server"]):
        pattern = load(spark, **where, subscribePattern="pl.*|tim.s")
        assert {row.topic for row in pattern.select("topic").distinct().collect()} == {"plain", "times"}
        assigned = load(spark, **where, assign='{"plain":[1]}')
        assert offsets_of(assigned) == [(1, offset) for offset in range(100)]
    assert load(spark, path=stage.path, subscribePattern="nothing").count() == 0


def test_the_root_may_be_what_is_loaded_and_the_server_kafkas_brokers(spark: SparkSession, stage: Stage):
    assert spark.read.format("lakelog").option("subscribe", "plain").load(stage.path).count() == 200
    assert load(spark, path=f"file://{stage.path}", subscribe="plain").count() == 200
    assert load(spark, kafka__bootstrap__servers=stage.url, subscribe="plain", kafka__group__id="g").count() == 200


def test_large_partitions_are_read_by_as_many_tasks_as_are_wanted(spark: SparkSession, stage: Stage):
    whole = load(spark, **stage.grounds["both"], subscribe="plain")
    assert whole.rdd.getNumPartitions() == 2
    for more in ({"minPartitions": 6}, {"maxRecordsPerPartition": 34}):
        pieces = load(spark, **stage.grounds["both"], subscribe="plain", **more)
        assert pieces.rdd.getNumPartitions() == 6
        assert offsets_of(pieces) == offsets_of(whole)


def test_columns_that_are_not_wanted_need_not_be_read(spark: SparkSession, stage: Stage):
    where = stage.grounds["both"] | {"subscribe": "plain"}
    assert load(spark, **where).columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]
    few = spark.read.format("lakelog").schema("offset BIGINT, topic STRING").options(**where).load()
    assert few.columns == ["offset", "topic"]
    assert few.count() == 200
    assert few.where("offset >= 90").select("topic").collect() == [("plain",)] * 20
    for ground in stage.grounds.values():
        none = spark.read.format("lakelog").schema(StructType([])).options(**ground, subscribe="plain").load()
        assert (none.columns, none.count()) == ([], 200), "rows of no column are rows"
    with pytest.raises(PySparkException, match="there is no column 'body'"):
        spark.read.format("lakelog").schema("body STRING").options(**where).load().collect()
    with pytest.raises(PySparkException, match="column 'value' is binary"):
        spark.read.format("lakelog").schema("value STRING").options(**where).load().collect()


def test_the_kind_of_a_timestamp_is_that_of_the_topic(spark: SparkSession, stage: Stage):
    stage.create("stamped", 1, message_timestamp_type="LogAppendTime")
    stage.fill("stamped", 1)
    for where in stage.grounds.values():
        assert load(spark, **where, subscribe="stamped").select("timestampType").collect() == [(1,)]


@pytest.mark.parametrize("ground", ["tables", "server"])
def test_records_that_are_gone_fail_a_batch_or_are_stepped_over(spark: SparkSession, stage: Stage, ground: str):
    topic = f"loss-{ground}"
    stage.create(topic, 1)
    stage.fill(topic, 10)
    stage.delete_records(topic, 0, 4)
    where = stage.grounds[ground] | {"subscribe": topic}
    assert offsets_of(load(spark, **where)) == [(0, offset) for offset in range(4, 10)]
    gone = where | {"startingOffsets": f'{{"{topic}":{{"0":2}}}}'}
    with pytest.raises(PySparkException, match=f"{topic}-0 was read up to 2 and begins at 4"):
        load(spark, **gone).collect()
    assert offsets_of(load(spark, **gone, failOnDataLoss="false")) == [(0, offset) for offset in range(4, 10)]
    beyond = where | {"endingOffsets": f'{{"{topic}":{{"0":11}}}}'}
    with pytest.raises(PySparkException, match="was to be read up to 11 and ends at 10"):
        load(spark, **beyond).collect()


def test_what_cannot_be_is_refused_before_anything_is_read(spark: SparkSession, stage: Stage, tmp_path: Path):
    for options, message in [
        ({"subscribe": "nowhere"}, "there is no topic 'nowhere'"),
        ({"assign": '{"plain":[2]}'}, "has no partition 2"),
        ({"subscribe": "plain", "startingOffsets": '{"plain":{"0":1}}'}, "plain-1 is missing"),
        ({"subscribe": "plain", "startingOffset": "earliest"}, r"did you mean startingOffsets\?"),
        ({"subscribe": "plain", "startingOffsets": "latest"}, "a batch cannot begin at latest"),
        ({"subscribe": "plain", "kafka__bootstrap__servers": "broker:9092"}, "address of a lakelog server"),
    ]:
        with pytest.raises(PySparkException, match=message):
            load(spark, path=stage.path, **options).collect()
    with pytest.raises(PySparkException, match=r"it has no lakelog\.json"):
        load(spark, path=str(tmp_path), subscribe="plain").collect()


def test_in_sql_a_topic_is_a_view_of_the_session_and_no_table_of_a_catalog(spark: SparkSession, stage: Stage):
    """Spark does not hand the options of a table to a source in Python when it is read."""
    options = f"OPTIONS (`kafka.bootstrap.servers` '{stage.url}', subscribe 'plain', startingOffsets 'earliest')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW plain_view USING lakelog {options}")
    counted = spark.sql("SELECT partition, count(*) FROM plain_view WHERE `offset` >= 90 GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in counted.collect()] == [(0, 10), (1, 10)]
    with pytest.raises(PySparkException, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE plain_table USING lakelog {options}")


def test_a_root_and_a_server_must_be_of_one_cluster(spark: SparkSession, stage: Stage):
    with serving(None) as other:
        httpx.put(f"{other.url}/topics/plain").raise_for_status()
        with pytest.raises(PySparkException, match="serves the cluster"):
            load(spark, path=stage.path, server=other.url, subscribe="plain").collect()


def test_a_server_that_is_not_there_fails_the_query_when_its_patience_is_over(spark: SparkSession):
    with pytest.raises(PySparkException, match="Connection refused"):
        load(spark, server="http://127.0.0.1:9", subscribe="plain", kafkaConsumer__pollTimeoutMs=300).collect()
