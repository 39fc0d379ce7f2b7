"""Spark meets the offsets of groups: the documented view and query run as they stand, and say what the groups say."""

import asyncio
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from consumer_groups.sql.views import COMMITTED_OFFSETS
from delta_log import Log, Settings
from tests.support.coordinating import coordinating
from tests.support.group_sql import (
    LAG,
    OFFSETS,
    VIEW,
    Rows,
    lags_of,
    live_through_much,
    offsets_of,
    tables_of,
)
from tests.support.keyed_rows import compact


def rows_of(found: DataFrame) -> Rows:
    """Sorted; a time as milliseconds."""
    rows = [row.asDict() for row in found.collect()]
    for row in rows:
        if "committed_at" in row:
            row["committed_at"] = round(row["committed_at"].timestamp() * 1000)
    return sorted(tuple(row.values()) for row in rows)


def test_spark_runs_the_view_of_committed_offsets_and_the_query_of_the_lag(spark: SparkSession, tmp_path: Path):
    async def act(log: Log) -> None:
        async with coordinating(log) as groups:
            await live_through_much(log, groups)
            for _ in range(2):
                for relation, table in tables_of(log).items():
                    spark.read.format("delta").load(table.table_uri).createOrReplaceTempView(relation)
                spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW committed_offsets AS {COMMITTED_OFFSETS}")
                assert rows_of(spark.sql(VIEW)) == await offsets_of(groups)
                lags = rows_of(spark.sql(LAG))
                assert lags == await lags_of(log, groups)
                assert len(lags) == 5
                compact(log, OFFSETS)
                spark.catalog.clearCache()

    with Log.open(tmp_path / "root", settings=Settings(upkeep=False)) as log:
        asyncio.run(act(log))
