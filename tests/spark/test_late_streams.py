"""Streams that stand still while a topic is tidied up: plain streams of Delta inside its history, and behind it.

What the page about topic tables says of `skipChangeCommits` and of the history is what happens here, beside what the
source `lakelog` does from the same place. The log's clock is the test's.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from delta_log import Log, LogReader, Record, Settings
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.maintenance.history import clean_history
from jobs.source.source import register
from jobs.tables import key_compaction
from tests.support.streams import ended

SKIP = {"skipChangeCommits": "true"}
CONFIG: dict[str, Any] = {
    "lakelog.history.ms": 60_000,
    "lakelog.history.commits": 100,
    "file.delete.delay.ms": 0,
    "lakelog.fold.files": 2,
    "min.cleanable.dirty.ratio": 0,
    "cleanup.policy": "compact,delete",
    "segment.ms": 1,
}


class Tidied:
    """A log of one partition, whose offset `n` has the value `n` and one of two keys."""

    def __init__(self, root: Path) -> None:
        self.now_ms = time.time_ns() // 1_000_000
        self.log = Log.open(root, settings=Settings(upkeep=False), clock_ms=lambda: self.now_ms)
        self.log.create_topic("t", 1, CONFIG)
        self.end = 0

    @property
    def location(self) -> str:
        return self.log.table_location("t")

    @property
    def offsets(self) -> list[int]:
        """Those that the table still has."""
        with LogReader.open(self.log.location) as reader:
            return [record.offset for fetched in reader.scan("t", 0) for record in fetched.records()]

    def append(self, commits: int = 1) -> None:
        for _ in range(commits):
            numbers = range(self.end, self.end + 10)
            self.log.append("t", [Record(b"%d" % number, key=b"%d" % (number % 2)) for number in numbers])
            self.log.flush()
            self.end += 10

    def compact_keys(self) -> None:
        assert key_compaction.main(["--data", self.log.location, "--topic", "t", "--engine", "local"]) == 0

    def let_history_pass(self) -> None:
        """An hour goes by, and the background has done all it does then."""
        live = self.log._running.catalog.live("t")
        self.now_ms += 3_600_000
        write_checkpoint(live.table)
        self.append()
        long_ago = time.time() - 7200
        for entry in Path(self.location, "_delta_log").iterdir():
            os.utime(entry, (long_ago, long_ago))
        assert clean_history(live, self.now_ms) > 0
        assert not Path(self.location, "_delta_log", f"{1:020d}.json").exists()


class Stream:
    """A query by its checkpoint: each run takes what there is, and answers the offsets it gave, batch by batch."""

    def __init__(self, spark: SparkSession, checkpoint: Path, kind: str, place: str, **options: str) -> None:
        self._frame = spark.readStream.format(kind).options(**options)
        self._place = place
        self._checkpoint = str(checkpoint)

    def run(self) -> list[int]:
        seen: list[int] = []

        def keep(batch: Any, _number: int) -> None:
            seen.extend(row.offset for row in batch.select("offset").collect())

        stream = self._frame.load(self._place).writeStream.foreachBatch(keep)
        ended(stream.option("checkpointLocation", self._checkpoint).trigger(availableNow=True).start)
        return seen


@pytest.fixture
def tidied(spark: SparkSession, tmp_path: Path) -> Iterator[Tidied]:
    register(spark)
    made = Tidied(tmp_path / "root")
    with made.log:
        made.append()
        yield made


def test_inside_the_history_a_native_stream_needs_one_option_and_misses_nothing(
    spark: SparkSession, tidied: Tidied, tmp_path: Path
):
    """Folds need none. Retention, delete-records and key compaction do: what they skip brings no new record."""
    streams = {
        name: Stream(spark, tmp_path / name, "delta", tidied.location, **options)
        for name, options in {"plain": {}, "deletes": {"ignoreDeletes": "true"}, "skip": SKIP}.items()
    }
    lake = Stream(spark, tmp_path / "lake", "lakelog", tidied.log.location, subscribe="t", startingOffsets="earliest")
    for stream in (*streams.values(), lake):
        assert sorted(stream.run()) == list(range(10))

    tidied.append()
    assert tidied.log.fold("t")
    for stream in (*streams.values(), lake):
        assert sorted(stream.run()) == list(range(10, 20))

    tidied.log.delete_records("t", 0, 20)
    tidied.append()
    with pytest.raises(PySparkException, match="DELTA_SOURCE_IGNORE_DELETE"):
        streams["plain"].run()
    assert sorted(streams["deletes"].run()) == list(range(20, 30))

    tidied.append()
    tidied.compact_keys()
    tidied.append()
    assert tidied.offsets == [38, 39, *range(40, 50)]
    with pytest.raises(PySparkException, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        streams["deletes"].run()
    assert sorted(streams["skip"].run()) == list(range(20, 50)), "also those that were taken out before it saw them"
    assert lake.run() == tidied.offsets


def test_behind_the_history_a_native_stream_ends_and_the_source_goes_on(
    spark: SparkSession, tidied: Tidied, tmp_path: Path
):
    """After folds, retention of what was read, a checkpoint, and the clean-up of the log and of files."""
    at, place = tidied.location, tidied.log.location
    native = Stream(spark, tmp_path / "native", "delta", at, **SKIP)
    careless = Stream(spark, tmp_path / "native", "delta", at, **SKIP, failOnDataLoss="false")
    young = Stream(spark, tmp_path / "young", "delta", at, **SKIP)
    anew = Stream(spark, tmp_path / "anew", "delta", at, **SKIP)
    lake = Stream(spark, tmp_path / "lake", "lakelog", place, subscribe="t", startingOffsets="earliest")
    assert sorted(native.run()) == lake.run() == list(range(10))
    tidied.append()
    assert sorted(native.run()) == list(range(10, 20))
    assert sorted(young.run()) == list(range(20))

    tidied.append(2)
    tidied.log.delete_records("t", 0, 5)
    assert tidied.log.fold("t")
    tidied.let_history_pass()
    for stream, error in [
        (native, "DELTA_MISSING_FILES_UNEXPECTED_VERSION"),
        (careless, "DELTA_STREAMING_TRAILING_COMMIT_MISSING"),
        (young, "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE"),
    ]:
        with pytest.raises(PySparkException, match=error):
            stream.run()
    assert lake.run() == list(range(10, 50))
    tidied.append()
    assert lake.run() == list(range(50, 60))
    assert sorted(anew.run()) == list(range(5, 60)), "a new checkpoint begins with the whole table"
