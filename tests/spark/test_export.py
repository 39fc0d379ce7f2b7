"""Spark writes to a table that was exported, as to any."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import lit

from delta_log import Log, Record, Settings
from delta_log.operations import export_topic


def test_spark_appends_to_and_deletes_from_an_exported_table(spark: SparkSession, tmp_path: Path):
    root = tmp_path / "root"
    with Log.open(root, settings=Settings(upkeep=False)) as log:
        log.create_topic("orders")
        log.append("orders", [Record(b"%d" % number) for number in range(3)])
    place = str(root / "topics" / "orders")
    rows = spark.read.format("delta").load(place)
    added = rows.where("offset = 0").withColumn("value", lit(b"theirs"))
    with pytest.raises(Exception, match="exclusive"):
        added.write.format("delta").mode("append").save(place)
    export_topic(root, "orders")
    added.write.format("delta").mode("append").save(place)
    values = sorted(bytes(row.value) for row in spark.read.format("delta").load(place).collect())
    assert values == [b"0", b"1", b"2", b"theirs"]
    spark.sql(f"DELETE FROM delta.`{place}` WHERE offset = 1")
    assert spark.read.format("delta").load(place).count() == 3
