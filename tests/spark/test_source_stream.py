"""`spark.readStream.format("lakelog")`: every record once and in order, whatever stops, moves or goes meanwhile."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from jobs.source.source import register
from tests.support.serving import serving, wait_for
from tests.support.source_stage import Stage, writing_on
from tests.support.streams import begun, ended

FOLDING = {"lakelog_fold_files": 4, "lakelog_commit_interval_ms": 100, "file_delete_delay_ms": 1}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Stage]:
    register(spark)
    root = tmp_path_factory.mktemp("source") / "root"
    with serving(root) as server:
        stage = Stage(server, root)
        yield stage
        stage.close()


class Follower:
    """A query, by its checkpoint, over as many lives as it is given. Its batches are lists of `(partition, offset)`.

    A batch that was not committed when its query was stopped comes again: as it was.
    """

    def __init__(self, spark: SparkSession, checkpoint: Path, **options: Any) -> None:
        self._frame: Callable[[], DataFrame] = (
            spark.readStream.format("lakelog").options(**{name: str(text) for name, text in options.items()}).load
        )
        self.checkpoint = checkpoint
        self.batches: dict[int, list[tuple[int, int]]] = {}

    @contextmanager
    def running(self) -> Iterator[StreamingQuery]:
        query = begun(lambda: self._start(processingTime="0 seconds"))
        try:
            yield query
        finally:
            query.stop()

    def run(self) -> None:
        """All there is now."""
        ended(lambda: self._start(availableNow=True))

    def wait_for(self, count: int, query: StreamingQuery) -> None:
        """Until so many rows were seen, or the query failed."""
        wait_for(lambda: len(self.seen) >= count or query.exception(), f"{count} rows")
        assert query.exception() is None, query.exception()

    @property
    def seen(self) -> list[tuple[int, int]]:
        return [row for batch in self.batches.values() for row in batch]

    def of(self, partition: int) -> list[int]:
        return [offset for number, offset in self.seen if number == partition]

    @property
    def ends(self) -> list[Any]:
        """What the checkpoint says of each batch."""
        entries = (self.checkpoint / "offsets").iterdir()
        paths = sorted((path for path in entries if path.name.isdigit()), key=lambda path: int(path.name))
        return [json.loads(path.read_text().splitlines()[-1]) for path in paths]

    def _start(self, **trigger: Any) -> StreamingQuery:
        writer = self._frame().writeStream.foreachBatch(self._keep)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()

    def _keep(self, batch: DataFrame, number: int) -> None:
        rows = [(row.partition, row.offset) for row in batch.select("partition", "offset").collect()]
        assert self.batches.setdefault(number, rows) == rows


@pytest.mark.parametrize("ground", ["tables", "both"])
def test_a_stream_gives_every_record_once_and_in_order_through_folds_limits_and_restarts(
    spark: SparkSession, stage: Stage, tmp_path: Path, ground: str
):
    topic = f"through-{ground}"
    stage.create(topic, 2, **FOLDING)
    options = stage.grounds[ground] | {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 50}
    follower = Follower(spark, tmp_path, **options)
    stage.fill(topic, 40, partitions=2)
    with writing_on(lambda n: stage.fill(topic, 10, partitions=2, first=10 * n)):
        with follower.running() as query:
            follower.wait_for(150, query)
        stage.wait_for_fold(topic, 0)
    stage.wait_for_fold(topic, 1)
    follower.run()
    for partition in range(2):
        assert follower.of(partition) == list(range(len(stage.read(topic, partition))))
    assert max(len(batch) for batch in follower.batches.values()) <= 52
    ends = [len(stage.read(topic, partition)) for partition in range(2)]
    assert follower.ends[-1] == {topic: {"0": ends[0], "1": ends[1]}}


@pytest.mark.parametrize("ground", ["server"])
def test_a_stream_from_latest_owes_what_comes_after_its_start_whenever_it_is_stopped(
    spark: SparkSession, stage: Stage, tmp_path: Path, ground: str
):
    """Also when its first batch was begun and never committed: where it begins is in the checkpoint by then."""
    topic = f"latest-{ground}"
    stage.create(topic, 1)
    stage.fill(topic, 5)
    follower = Follower(spark, tmp_path, **stage.grounds[ground], subscribe=topic)
    follower.run()
    assert (follower.seen, follower.ends) == ([], [{topic: {"0": 5}}])
    for path in (tmp_path / "commits").glob("*0*"):
        path.unlink()
    stage.fill(topic, 3)
    follower.run()
    assert follower.of(0) == [5, 6, 7]


def test_a_stream_begins_at_offsets_and_goes_on_with_partitions_and_topics_that_are_new(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    stage.create("grow-a", 1)
    stage.fill("grow-a", 6)
    start = json.dumps({"grow-a": {"0": 4}})
    follower = Follower(spark, tmp_path, **stage.grounds["both"], subscribePattern="grow-.*", startingOffsets=start)
    with follower.running() as query:
        follower.wait_for(2, query)
        cluster = stage.client.get("/v3/clusters").json()["data"][0]["cluster_id"]
        more = stage.client.patch(f"/v3/clusters/{cluster}/topics/grow-a", json={"partitions_count": 2})
        more.raise_for_status()
        stage.write("grow-a", [{"value": b"1", "partition": 1}])
        stage.create("grow-b", 1)
        stage.write("grow-b", [{"value": b"2"}, {"value": b"3"}])
        follower.wait_for(5, query)
    assert sorted(follower.seen) == [(0, 0), (0, 1), (0, 4), (0, 5), (1, 0)]
    assert follower.ends[-1] == {"grow-a": {"0": 6, "1": 1}, "grow-b": {"0": 2}}


def test_records_that_went_before_they_were_read_fail_a_stream_or_are_told_and_stepped_over(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    topic = "gone"
    stage.create(topic, 1, **FOLDING)
    stage.fill(topic, 4)
    options = stage.grounds["tables"] | {"subscribe": topic, "startingOffsets": "earliest"}
    follower = Follower(spark, tmp_path, **options)
    follower.run()
    stage.fill(topic, 6)
    stage.delete_records(topic, 0, 3)
    follower.run()
    assert follower.of(0) == list(range(10)), "what it had read before may go"
    stage.fill(topic, 10)
    stage.delete_records(topic, 0, 15)
    with pytest.raises(PySparkException, match=f"{topic}-0 was read up to 10 and begins at 15"):
        follower.run()
    careless = Follower(spark, tmp_path, **options, failOnDataLoss="false")
    careless.run()
    assert careless.of(0) == list(range(15, 20))


def test_a_topic_that_is_deleted_fails_a_stream_or_is_left_out(spark: SparkSession, stage: Stage, tmp_path: Path):
    for topic in ("left", "kept"):
        stage.create(topic, 1)
        stage.fill(topic, 2)
    options = stage.grounds["both"] | {"subscribePattern": "left|kept", "startingOffsets": "earliest"}
    follower = Follower(spark, tmp_path, **options)
    follower.run()
    stage.client.delete("/topics/left").raise_for_status()
    stage.fill("kept", 1)
    with pytest.raises(PySparkException, match="left-0 is gone"):
        follower.run()
    careless = Follower(spark, tmp_path, **options, failOnDataLoss="false")
    careless.run()
    assert careless.seen == [(0, 2)]
    assert careless.ends[-1] == {"kept": {"0": 3}}


def test_a_stream_sees_what_is_acknowledged_before_it_is_in_the_tables(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    """With a server: the table is not brought up to date for as long as the test lasts."""
    stage.create("tail", 1, lakelog_commit_interval_ms=60_000)
    stage.fill("tail", 3)
    follower = Follower(spark, tmp_path, **stage.grounds["both"], subscribe="tail", startingOffsets="earliest")
    stage.fill("tail", 3, wait=False)
    follower.run()
    assert follower.of(0) == list(range(6))


def test_too_little_waits_for_its_time(spark: SparkSession, stage: Stage, tmp_path: Path):
    stage.create("little", 1)
    stage.fill("little", 2)
    options = stage.grounds["tables"] | {"subscribe": "little", "startingOffsets": "earliest"}
    follower = Follower(spark, tmp_path, **options, minOffsetsPerTrigger="3", maxTriggerDelay="1h")
    with follower.running() as query:
        wait_for(lambda: query.recentProgress or query.exception(), "a look at the topic")
        assert follower.seen == []
        stage.fill("little", 1)
        follower.wait_for(3, query)
    assert [len(batch) for batch in follower.batches.values() if batch] == [3]
