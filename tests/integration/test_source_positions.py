"""A stream's reader between Spark and a log: which positions it answers, and that a batch is the same again. No JVM."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from delta_log import Log, Record, Settings
from jobs.source.columns import spark_schema
from jobs.source.errors import DataLoss, InvalidOption
from jobs.source.options import STREAM, parse_options
from jobs.source.stream import StreamReader

ALL = ReadAllAvailable()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path / "root", settings=Settings(upkeep=False)) as opened:
        opened.create_topic("t", 1)
        yield opened


def append(log: Log, count: int) -> None:
    log.append("t", [Record(b"v")] * count)
    log.flush()


def reader_of(log: Log, **given: str) -> StreamReader:
    """As after a start of the query: it remembers nothing, and sees all there is."""
    options = parse_options({"path": log.location, "subscribe": "t"} | given, STREAM)
    return StreamReader(options, spark_schema(headers=False))


def batch(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[int]:
    return [
        offset
        for task in reader.partitions(start, end)
        for rows in reader.read(task)
        for offset in rows.column("offset").to_pylist()
    ]


def test_the_first_batch_of_a_stream_from_latest_is_the_same_when_it_is_run_again(log: Log):
    """Records that came while the query began are either before its start, or in a batch: never between two lives."""
    append(log, 5)
    first = reader_of(log)
    start = first.initialOffset()
    append(log, 1)
    end = reader_of(log).latestOffset(start, ALL)
    assert end == {"t": {"0": 6}}
    assert batch(first, start, end) == []
    append(log, 3)
    again = reader_of(log)
    assert batch(again, again.initialOffset(), end) == []
    assert batch(again, end, again.latestOffset(end, ALL)) == [6, 7, 8]


@pytest.mark.parametrize("start", ["earliest", '{"t":{"0":0}}'])
def test_a_stream_from_a_settled_place_begins_with_records(log: Log, start: str):
    append(log, 5)
    reader = reader_of(log, startingOffsets=start)
    begin = reader.initialOffset()
    assert begin == {"t": {"0": 0}}
    end = reader.latestOffset(begin, ReadMaxRows(3))
    assert batch(reader, begin, end) == [0, 1, 2]
    append(log, 5)
    assert batch(reader_of(log), begin, end) == [0, 1, 2]


def test_nothing_new_is_the_very_start_again(log: Log):
    append(log, 5)
    reader = reader_of(log, startingOffsets="earliest")
    end = reader.latestOffset(reader.initialOffset(), ALL)
    assert reader.latestOffset(end, ALL) is end
    assert reader.partitions(end, end) == []


def test_a_run_over_what_is_there_ends_where_that_did(log: Log):
    append(log, 5)
    reader = reader_of(log, startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    append(log, 5)
    position = reader.initialOffset()
    seen: list[int] = []
    while (end := reader.latestOffset(position, ReadMaxRows(2))) != position:
        seen += batch(reader, position, end)
        position = end
    assert seen == [0, 1, 2, 3, 4]


def test_a_limit_is_of_records_that_are_there(log: Log):
    append(log, 50)
    log.delete_records("t", 0, 40)
    reader = reader_of(log, failOnDataLoss="false")
    end = reader.latestOffset({"t": {"0": 3}}, ReadMaxRows(5))
    assert batch(reader, {"t": {"0": 3}}, end) == [40, 41, 42, 43, 44]


def test_a_topic_that_began_anew_is_told_and_read_from_its_start(log: Log):
    append(log, 9)
    log.delete_topic("t")
    log.create_topic("t", 1)
    append(log, 2)
    strict, careless = reader_of(log), reader_of(log, failOnDataLoss="false")
    start = {"t": {"0": 9}}
    end = strict.latestOffset(start, ALL)
    with pytest.raises(DataLoss, match="t-0 was read up to 9 and ends at 2"):
        strict.partitions(start, end)
    assert batch(careless, start, end) == [0, 1]


@pytest.mark.parametrize(
    "given",
    [{"startingOffsets": "earliest"}, {"startingOffsets": '{"t":{"0":0}}'}, {"startingTimestamp": "1"}],
    ids=str,
)
def test_a_first_batch_is_the_same_again_though_there_are_more_partitions_by_then(log: Log, given: dict[str, str]):
    """Spark asks anew where the query begins, as long as no batch of it is committed."""
    append(log, 5)
    first = reader_of(log, **given)
    end = first.latestOffset(first.initialOffset(), ALL)
    log.add_partitions("t", 3)
    log.append("t", [Record(b"v", partition=1)] * 3)
    log.flush()
    again = reader_of(log, **given)
    assert batch(again, again.initialOffset(), end) == [0, 1, 2, 3, 4]
    assert batch(again, end, again.latestOffset(end, ALL)) == [0, 1, 2], "new partitions begin at earliest"


def test_a_new_query_does_not_begin_where_a_partition_is_not_named(log: Log):
    log.add_partitions("t", 2)
    reader = reader_of(log, startingOffsets='{"t":{"0":0}}')
    with pytest.raises(InvalidOption, match="t-1 is missing"):
        reader.latestOffset(reader.initialOffset(), ALL)


def test_a_run_over_what_is_there_says_where_that_ends(log: Log):
    append(log, 5)
    reader = reader_of(log, startingOffsets="earliest")
    reader.prepareForTriggerAvailableNow()
    assert reader.reportLatestOffset() == {"t": {"0": 5}}


def test_a_topic_that_is_gone_and_one_that_is_left_out_are_told_alike(log: Log):
    append(log, 5)
    log.create_topic("u", 1)
    reader = reader_of(log)
    with pytest.raises(DataLoss, match="u-0 is gone, or is not among what is to be read any more"):
        reader.partitions({"t": {"0": 5}, "u": {"0": 0}}, {"t": {"0": 5}})
