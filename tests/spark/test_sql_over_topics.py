"""SQL of Spark over topics of a running server, by the names of `lakelog sql`; and the queries of the page about it."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from consumer_groups.model.records import OFFSETS_TABLE
from delta_log import Log, LogReader
from delta_log.fetch.sql import read_table
from delta_log.model.errors import UnknownTopic
from delta_log.transactions.transaction_log import TABLE as TRANSACTIONS_TABLE
from jobs.sql import NameTaken
from lakelog import Admin, Producer
from pyspark_lakelog import register_topics
from tests.architecture.project_files import ROOT
from tests.support.serving import serving, wait_for
from tests.support.source_stage import Stage

PAGE = (ROOT / "docs" / "how-to" / "query-with-spark.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HOUR = 3_600_000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    root = tmp_path_factory.mktemp("sql") / "it's a `root`"
    with serving(root) as server:
        stage = Stage(server, root)
        stage.create("orders", 2)
        stage.create("pay-ments.eu", 1)
        now = soon()
        rows: list[Any] = [("alice", b"1", 0, 30), ("bob", b"9", 1, 30), ("alice", b"2", 0, 0), ("carol", b"7", 1, 0)]
        for key, value, partition, hours in rows:
            at = now - hours * HOUR
            stage.write("orders", [{"key": key.encode(), "value": value, "partition": partition, "timestamp": at}])
        stage.write("orders", [{"key": b"carol", "value": None, "partition": 1, "timestamp": now}])
        headers = [("trace", "ü".encode()), ("raw", b"\xff\x00")]
        stage.write("pay-ments.eu", [{"key": b"\xff\x00", "value": "ü".encode(), "headers": headers}])
        yield stage
        stage.close()


def soon() -> int:
    """What is of today is so still where midnight comes before its query."""
    return time.time_ns() // 1_000_000 + HOUR // 4


def rows(spark: SparkSession, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def states(place: str) -> list[str]:
    return read_table(place, ["state"]).column("state").to_pylist()


def test_every_topic_is_a_relation_and_its_text_another_as_of_now(spark: SparkSession, stage: Stage):
    """What is no UTF-8 is base64, names that are no words are quoted, and what comes later is seen."""
    assert register_topics(spark, f"file://{quote(stage.path)}")[:2] == ["orders", "pay-ments.eu"]
    headers = [("trace", "ü"), ("raw", "/wA=")]
    assert rows(spark, "SELECT key, value, headers FROM `pay-ments.eu_text`") == [("/wA=", "ü", headers)]
    assert rows(spark, "SELECT key FROM `pay-ments.eu`") == [(bytearray(b"\xff\x00"),)]
    count = "SELECT count(*) FROM orders_text"
    before = rows(spark, count)[0][0]
    stage.write("orders", [{"key": b"late", "value": b"1", "timestamp": soon()}, {"value": None, "timestamp": soon()}])
    assert rows(spark, count) == [(before + 2,)]
    assert rows(spark, "SELECT value FROM orders_text WHERE key IS NULL") == [(None,)]
    stage.create("later", 1)
    with pytest.raises(PySparkException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM later")
    assert "later_text" in register_topics(spark, stage.path)
    assert rows(spark, "SELECT count(*) FROM later") == [(0,)]
    with pytest.raises(UnknownTopic):
        register_topics(spark, stage.path, topics=["nowhere"])


def test_what_transactions_have_committed_is_seen_as_lakelog_sql_sees_it(spark: SparkSession, stage: Stage):
    with Producer({"bootstrap.servers": stage.url, "transactional.id": "till"}) as producer:
        for _ in range(2):
            with producer.transaction():
                producer.send("pay-ments.eu", b"1")
    with LogReader.open(stage.path) as reader:
        place = reader.table_location(TRANSACTIONS_TABLE)
        wait_for(lambda: states(place).count("complete") == 2, "that both are complete")
    assert {"transactions", TRANSACTIONS_TABLE} <= set(register_topics(spark, stage.path, topics=["orders"]))
    found = rows(spark, "SELECT transactional_id, count(*) FROM transactions GROUP BY transactional_id")
    assert found == [("till", 2)]
    assert rows(spark, f"SELECT count(*) > 2 FROM {TRANSACTIONS_TABLE}") == [(True,)]


def test_the_blocks_of_the_page_run(spark: SparkSession, stage: Stage, tmp_path: Path):
    """As of an hour ago the table had two of its commits."""
    with Admin({"bootstrap.servers": stage.url}) as admin:
        admin.alter_group_offsets("billing", {("orders", 0): 1})
    with LogReader.open(stage.path) as reader:
        place = reader.table_location(OFFSETS_TABLE)
        wait_for(lambda: read_table(place, ["offset"]).num_rows, "offsets in their table")
    long_ago = time.time() - 2 * 3600
    log = Path(stage.path, "topics", "orders", "_delta_log")
    for version in range(3):
        os.utime(log / f"{version:020d}.json", (long_ago + version, long_ago + version))
    names: dict[str, Any] = {"spark": spark}
    told = {"/data/lakelog": stage.path.replace("`", "``"), "/data/tests": str(tmp_path)}
    for block in BLOCK.findall(PAGE):
        for text, here in told.items():
            if text == "/data/lakelog" and f'"{text}"' in block:
                here = stage.path  # noqa: PLW2901 - no text of SQL
            block = block.replace(text, here)  # noqa: PLW2901 - a block as it is here
        exec(block, names)
    found = {name: [tuple(row) for row in frame.collect()] for name, frame in names.items() if hasattr(frame, "schema")}
    assert found["by_key"][:2] == [("alice", 2), ("carol", 2)]
    assert ("alice", "2") in found["latest"]
    assert "carol" not in {key for key, _ in found["latest"]}
    assert found["yesterday"] == [("alice", "1"), ("bob", "9")]
    assert found["hour_ago"] == [(0, 1), (1, 1)]
    assert sum(records for _, records, _ in found["per_minute"]) >= 3
    assert found["lag"] == [("billing", "orders", sum(1 for _ in stage.read("orders", 0)) - 1)]
    assert rows(spark, f"SELECT DISTINCT partition FROM delta.`{tmp_path}/orders`") == [(0,)]
    assert len(stage.read("orders", 1)) > 1


def test_in_a_database_names_are_made_to_fit_and_nobodys_table_is_taken(spark: SparkSession, tmp_path: Path):
    with Log.open(tmp_path / "root") as log:
        for topic in ("a-b", "plain"):
            log.create_topic(topic)
        spark.sql("CREATE DATABASE fitted")
        for _ in range(2):
            found = register_topics(spark, log.location, topics=["a-b"], database="spark_catalog.fitted")
            assert found == [f"`spark_catalog`.`fitted`.`{name}`" for name in ("a_b", "a_b_text")]
        spark.sql("DROP TABLE fitted.a_b")
        assert rows(spark, f"SELECT count(*) FROM delta.`{log.table_location('a-b')}`") == [(0,)]
        spark.sql(f"CREATE TABLE fitted.plain USING DELTA LOCATION '{tmp_path / 'other'}' AS SELECT 1 AS x")
        with pytest.raises(NameTaken, match=r"a table at .*other already"):
            register_topics(spark, log.location, database="fitted")
        assert rows(spark, "SELECT x FROM fitted.plain") == [(1,)]
        log.create_topic("a_b")
        with pytest.raises(NameTaken, match=r"`fitted`.`a_b` is 'a-b' already"):
            register_topics(spark, log.location, database="fitted")
