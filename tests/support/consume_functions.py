"""Functions that tests have a consume job call by their names. What they saw is kept here, in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, functions
from pyspark.sql.types import BinaryType

from pyspark_lakelog import dead_letter

#: Of each batch, its rows as `(topic, partition, offset)`.
BATCHES: list[list[tuple[str, int, int]]] = []
#: Called with each batch behind that, by whoever set it.
THEN: list[Callable[[], Any]] = []
LOCK = threading.Lock()


def keep(batch: DataFrame, batch_id: int) -> None:
    rows = [tuple(row) for row in batch.select("topic", "partition", "offset").collect()]
    with LOCK:
        BATCHES.append(rows)
    for call in THEN:
        call()


def upper(frame: DataFrame) -> DataFrame:
    return frame.select("key", functions.upper(functions.col("value").cast("string")).alias("value"))


def bill(frame: DataFrame) -> DataFrame:
    """As the program of the documents that copies exactly once."""
    value = functions.concat(functions.lit(b"bill of "), functions.col("value"))
    return frame.select("key", value.alias("value"))


def with_a_stream_of_its_own(frame: DataFrame) -> DataFrame:
    """Spark says where its stream is behind where that of the job is."""
    ticks = frame.sparkSession.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    return frame.select("value").union(ticks.select(functions.lit(b"tick")))


def by_batch(batch: DataFrame, batch_id: int) -> DataFrame:
    return batch.select(
        functions.concat(functions.lit(f"{batch_id}:"), functions.col("value").cast("string")).alias("value")
    )


def gives_up_twos(frame: DataFrame) -> DataFrame:
    """What comes of it has neither topic nor offset."""
    value = functions.col("value").cast("string")
    return frame.select("key", "value", dead_letter(functions.when(value == "2", functions.lit("it is two"))))


def keeps_and_gives_up(batch: DataFrame, batch_id: int) -> DataFrame:
    """It has put out the others itself; one is given up twice."""
    keep(batch.where("offset % 3 != 1"), batch_id)
    bad = batch.where("offset % 3 = 1")
    return bad.union(bad).select(dead_letter(functions.concat(functions.lit("of "), functions.col("key"))))


@functions.udf(BinaryType(), useArrow=False)
def _no_twos(value: bytes) -> bytes:
    if bytes(value) == b"2":
        raise ValueError("it is two")
    return value


def fails_on_twos(frame: DataFrame) -> DataFrame:
    return frame.select("key", _no_twos("value").alias("value"))


def fails_in_any_case(frame: DataFrame) -> DataFrame:
    return frame.select(_no_twos(functions.lit(b"2")).alias("value"))


def fails_and_remembers(frame: DataFrame) -> DataFrame:
    return fails_on_twos(frame).dropDuplicates(["value"])


def keeps_none_but_twos(batch: DataFrame, batch_id: int) -> None:
    """What it has done before it fails stays done."""
    rows = batch.select("topic", "partition", "offset", "value").collect()
    for topic, partition, offset, value in rows:
        if bytes(value) == b"2":
            raise ValueError(f"two, in batch {batch_id}")
        with LOCK:
            BATCHES.append([(topic, partition, offset)])


def gives_up_what_is_not_there(batch: DataFrame, batch_id: int) -> DataFrame:
    return batch.withColumn("offset", functions.col("offset") + 1000).select(dead_letter(functions.lit("why")))


def has_a_column_of_that_name(frame: DataFrame) -> DataFrame:
    return frame.withColumn("dead_letter", functions.lit("why"))


def count(frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").agg(functions.count("*").cast("string").alias("value"))


def append_to(path: Path) -> Callable[[DataFrame, int], None]:
    def append(batch: DataFrame, batch_id: int) -> None:
        with path.open("a") as file:
            file.writelines(f"{row[0]}\n" for row in batch.select("offset").collect())

    return append


def answers_text(frame: DataFrame) -> str:
    return "no frame"


def answers_a_batch(frame: DataFrame) -> DataFrame:
    return frame.sparkSession.range(1)


def raises(frame: DataFrame) -> DataFrame:
    raise RuntimeError("not today")


def fails_in_a_worker(batch: DataFrame, batch_id: int) -> None:
    def fail(_: Any) -> int:
        raise ValueError("not this row")

    batch.rdd.map(fail).collect()


def takes_three(frame: DataFrame, number: int, more: int) -> DataFrame:
    return frame


def takes_nothing() -> None: ...
