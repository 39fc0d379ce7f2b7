"""Spark meets a topic as a plain Delta table: it reads it, streams it, and is kept from writing it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chispa import assert_df_equality
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from delta_log import Log, Settings
from tests.support.other_readers import Rows, by_log, shorten_log, write

TOPIC = "orders"
SCHEMA = """partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY,
    headers ARRAY<STRUCT<key: STRING, value: BINARY>>, producer_id STRING, producer_epoch INT, sequence BIGINT"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path / "root", settings=Settings(upkeep=False)) as opened:
        opened.create_topic(TOPIC, 2, {"lakelog.fold.files": 2})
        write(opened, TOPIC)
        yield opened


def frame(spark: SparkSession, rows: Rows) -> DataFrame:
    return spark.createDataFrame([tuple(row.values()) for row in rows], SCHEMA)


def test_spark_reads_the_rows_of_the_log(spark: SparkSession, log: Log):
    """All columns, null and empty, microseconds: before and after a fold, a checkpoint and a shorter log."""
    location = log.table_location(TOPIC)
    assert_df_equality(
        spark.read.format("delta").load(location), frame(spark, by_log(log, TOPIC)), ignore_row_order=True
    )

    assert log.fold(TOPIC)
    shorten_log(log, TOPIC)
    write(log, TOPIC, 1, first=50)
    log.delete_records(TOPIC, 0, 2)

    spark.catalog.clearCache()
    expected = by_log(log, TOPIC)
    read = spark.read.format("delta").load(location)
    assert_df_equality(read, frame(spark, expected), ignore_row_order=True)
    late = read.where("partition = 1 AND timestamp >= TIMESTAMP '2023-11-14 22:14:10.000999Z'")
    assert late.count() == len(
        [r for r in expected if r["partition"] == 1 and r["timestamp"].timestamp() >= 1_700_000_050.000999]
    )


def test_spark_streams_every_row_once(spark: SparkSession, log: Log, tmp_path: Path):
    """What is there comes first, then what was added; a fold in between brings nothing again."""
    location = log.table_location(TOPIC)

    def run(batches: list[Rows]) -> None:
        def keep(batch: DataFrame, _number: int) -> None:
            batches.append([row.asDict() for row in batch.select("partition", "offset", "value").collect()])

        stream = spark.readStream.format("delta").option("skipChangeCommits", "true").load(location)
        query = (
            stream.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(tmp_path / "stream"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)

    batches: list[Rows] = []
    run(batches)
    assert log.fold(TOPIC)
    write(log, TOPIC, 1, first=50)
    run(batches)
    streamed = sorted((row["partition"], row["offset"], row["value"]) for batch in batches for row in batch)
    assert streamed == [(row["partition"], row["offset"], row["value"]) for row in by_log(log, TOPIC)]


WRITES: dict[str, Callable[[SparkSession, str], object]] = {
    "append": lambda spark, at: (
        spark.read.format("delta").load(at).limit(1).write.format("delta").mode("append").save(at)
    ),
    "DELETE": lambda spark, at: spark.sql(f"DELETE FROM delta.`{at}` WHERE offset = 0"),
    "UPDATE": lambda spark, at: spark.sql(f"UPDATE delta.`{at}` SET value = NULL"),
    "OPTIMIZE": lambda spark, at: spark.sql(f"OPTIMIZE delta.`{at}`"),
    "ALTER": lambda spark, at: spark.sql(f"ALTER TABLE delta.`{at}` SET TBLPROPERTIES ('x' = 'y')"),
    "VACUUM": lambda spark, at: spark.sql(f"VACUUM delta.`{at}`"),
    "RESTORE": lambda spark, at: spark.sql(f"RESTORE TABLE delta.`{at}` TO VERSION AS OF 1"),
}


def test_spark_is_refused_whatever_it_wants_to_write(spark: SparkSession, log: Log):
    """And leaves nothing in the table's log; what it wrote beside it before, no reader ever sees."""
    location = log.table_location(TOPIC)
    entries = sorted(Path(location, "_delta_log").iterdir())
    for act in WRITES.values():
        with pytest.raises((PySparkException, Py4JJavaError), match="DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"):
            act(spark, location)
    assert sorted(Path(location, "_delta_log").iterdir()) == entries
