"""Spark meets a ledger's table: the documented view of it runs as it stands, and gives what the ledger loads."""

from pathlib import Path

from pyspark.sql import SparkSession

from consumer_groups.coordinator.tables import OFFSETS
from delta_log import Log, Settings
from tests.support.keyed_rows import COMMITTED, compact, live_of
from tests.support.logs import hold_tables


def test_spark_runs_the_documented_view_of_committed_offsets(spark: SparkSession, tmp_path: Path):
    names = [name for name in OFFSETS.schema.names if name not in ("committed_at", "commit_seq")]
    with Log.open(tmp_path / "root", settings=Settings(upkeep=False)) as log:
        hold_tables(log)
        ledger = log.open_ledger([OFFSETS])
        for number in range(12):
            rows = [("g", "t", "id", number % 3, number, "", 1, 1_800_000_000_000), ("o", "t", "id", 0, 7, "", 2, 1)]
            rows += [("g", "t", "id", 2, None, None, None, None)] * (number == 11)
            ledger.append([("__consumer_offsets", row) for row in rows])
            log.flush()
        location = f"{log.location}/topics/__consumer_offsets"
        for _ in range(2):
            spark.read.format("delta").load(location).createOrReplaceTempView("consumer_offsets")
            spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW committed AS {COMMITTED}")
            found = spark.sql("SELECT * FROM committed AS c ORDER BY c.commit_seq").collect()
            wanted = ledger.load("__consumer_offsets")
            assert [tuple(row[name] for name in names) for row in found] == [row[:-1] for row in wanted]
            assert [row["committed_at"].timestamp() for row in found] == [row[-1] / 1000 for row in wanted]
            compact(log, "__consumer_offsets")
            spark.catalog.clearCache()
        assert live_of(log, "__consumer_offsets").table.snapshot.file_count == 1
