"""Every option that Spark documents of its source for Kafka: taken by the same queries, to the same effect. No JVM."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from delta_log import Log, Record, Settings
from jobs.source.batch import BatchReader
from jobs.source.columns import spark_schema
from jobs.source.declared import BATCH, BOTH, OPTIONS, STREAM
from jobs.source.errors import DataLoss, InvalidOption
from jobs.source.options import parse_options
from jobs.source.source import LakelogSource
from jobs.source.stream import UNRESOLVED, StreamReader

#: As its guide has them, by the queries that take them; the last is in its code alone.
KAFKA = {
    **dict.fromkeys(["assign", "subscribe", "subscribePattern", "kafka.bootstrap.servers"], BOTH),
    **dict.fromkeys(["startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets"], BOTH),
    **dict.fromkeys(["endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"], BATCH),
    **dict.fromkeys(["failOnDataLoss", "kafkaConsumer.pollTimeoutMs"], BOTH),
    **dict.fromkeys(["fetchOffset.numRetries", "fetchOffset.retryIntervalMs"], BOTH),
    **dict.fromkeys(["maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"], STREAM),
    **dict.fromkeys(["minPartitions", "groupIdPrefix", "kafka.group.id", "includeHeaders"], BOTH),
    **dict.fromkeys(["startingOffsetsByTimestampStrategy", "maxRecordsPerPartition"], BOTH),
}
LATE_IS_LATEST = {"startingOffsetsByTimestampStrategy": "latest"}
NOW = 1_700_000_000_000
EACH = '{"t":{"0":%d,"1":%d}}'
ALL = [(partition, offset) for partition in range(2) for offset in range(10)]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """Two partitions of ten records, a second apart; those of partition 1 half a second later."""
    with Log.open(tmp_path_factory.mktemp("options") / "root", settings=Settings(upkeep=False)) as opened:
        opened.create_topic("t", 2)
        opened.create_topic("other", 1)
        for partition in range(2):
            times = range(NOW + 500 * partition, NOW + 10_000, 1000)
            opened.append("t", [Record(b"v", timestamp=at, partition=partition) for at in times])
        opened.flush()
        yield opened


def batch_of(log: Log, **given: Any) -> BatchReader:
    chosen = {} if {"assign", "subscribePattern"} & given.keys() else {"subscribe": "t"}
    texts = {name.replace("__", "."): str(value) for name, value in given.items()}
    return BatchReader(parse_options({"path": log.location} | chosen | texts, BATCH), spark_schema(headers=False))


def stream_of(log: Log, **given: Any) -> StreamReader:
    texts = {name.replace("__", "."): str(value) for name, value in given.items()}
    return StreamReader(
        parse_options({"path": log.location, "subscribe": "t"} | texts, STREAM), spark_schema(headers=False)
    )


def first_end(reader: StreamReader) -> Any:
    """As Spark asks a new query."""
    return reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


def read(log: Log, **given: Any) -> list[tuple[int, int]]:
    reader = batch_of(log, **given)
    rows = (row for task in reader.partitions() for rows in reader.read(task) for row in rows.to_pylist())
    return [(row["partition"], row["offset"]) for row in rows]


def test_every_option_of_kafkas_source_is_known_and_taken_by_the_same_queries():
    known = {option.name: option.query for option in OPTIONS}
    assert {name: known.get(name) for name in KAFKA} == KAFKA
    assert known.keys() - KAFKA.keys() == {"path", "server", "group.id"}


@pytest.mark.parametrize(
    ("given", "starts"),
    [
        ({}, (0, 0)),
        ({"startingOffsets": "earliest"}, (0, 0)),
        ({"startingOffsets": EACH % (3, -2)}, (3, 0)),
        ({"startingTimestamp": NOW + 3001}, (4, 3)),
        ({"startingOffsetsByTimestamp": EACH % (NOW + 9000, 0)}, (9, 0)),
        ({"startingTimestamp": NOW + 9500, **LATE_IS_LATEST}, (10, 9)),
        (
            {"startingOffsetsByTimestamp": EACH % (NOW + 9001, 0), **LATE_IS_LATEST},
            (10, 0),
        ),
        ({"startingTimestamp": NOW + 8000, "startingOffsetsByTimestamp": EACH % (0, 0)}, (8, 8)),
        ({"startingOffsetsByTimestamp": EACH % (NOW + 8000, 0), "startingOffsets": EACH % (1, 1)}, (8, 0)),
    ],
    ids=str,
)
def test_where_a_batch_begins(log: Log, given: dict[str, Any], starts: tuple[int, int]):
    assert read(log, **given) == [(p, offset) for p, offset in ALL if offset >= starts[p]]


@pytest.mark.parametrize(
    ("given", "ends"),
    [
        ({"endingOffsets": "latest"}, (10, 10)),
        ({"endingOffsets": EACH % (3, -1)}, (3, 10)),
        ({"endingTimestamp": NOW + 3001}, (4, 3)),
        ({"endingTimestamp": NOW + 9500}, (10, 9)),
        ({"endingOffsetsByTimestamp": EACH % (NOW + 1000, NOW + 60_000)}, (1, 10)),
        ({"endingTimestamp": NOW + 2000, "endingOffsetsByTimestamp": EACH % (0, 0), "endingOffsets": "latest"}, (2, 2)),
        ({"endingOffsetsByTimestamp": EACH % (NOW + 1000, NOW), "endingOffsets": "latest"}, (1, 0)),
    ],
    ids=str,
)
def test_where_a_batch_ends(log: Log, given: dict[str, Any], ends: tuple[int, int]):
    """Before the offset, or the first record at or after the time; at latest where no record is that young."""
    assert read(log, **given) == [(p, offset) for p, offset in ALL if offset < ends[p]]


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ({"startingOffsets": EACH % (3, -2)}, {"0": 3, "1": 0}),
        ({"startingTimestamp": NOW + 3001}, {"0": 4, "1": 3}),
        ({"startingOffsetsByTimestamp": EACH % (NOW + 9000, 0)}, {"0": 9, "1": 0}),
    ],
    ids=str,
)
def test_where_a_new_stream_begins(log: Log, given: dict[str, Any], start: dict[str, int]):
    assert stream_of(log, **given).initialOffset() == {"t": start}


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ({}, {"0": 10, "1": 10}),
        ({"startingOffsets": EACH % (-1, 2)}, {"0": 10, "1": 2}),
        ({"startingTimestamp": NOW + 9500, **LATE_IS_LATEST}, {"0": 10, "1": 9}),
    ],
    ids=str,
)
def test_where_a_new_stream_begins_that_depends_on_latest(log: Log, given: dict[str, Any], start: dict[str, int]):
    reader = stream_of(log, **given)
    assert reader.initialOffset() is UNRESOLVED
    assert reader.latestOffset(UNRESOLVED, ReadAllAvailable()) == {"t": start}


def test_a_time_that_no_record_has_reached_is_an_error_unless_that_is_said_to_be_latest(log: Log):
    for late in ({"startingTimestamp": NOW + 9500}, {"startingOffsetsByTimestamp": EACH % (NOW + 9500, 0)}):
        with pytest.raises(InvalidOption, match="no record of t-0 is at or after"):
            read(log, **late)
        with pytest.raises(InvalidOption, match="no record of t-0 is at or after"):
            first_end(stream_of(log, **late))


def test_a_stream_that_goes_on_does_not_look_at_where_it_was_to_begin(log: Log):
    """And partitions that are new to it begin at earliest."""
    for given in ({"startingOffsets": "latest"}, {"startingTimestamp": NOW + 60_000}):
        reader = stream_of(log, **given)
        start = {"t": {"0": 7}}
        end = reader.latestOffset(start, ReadAllAvailable())
        tasks = reader.partitions(start, end)
        assert [(task.of.span.of.partition, task.of.span.start, task.of.span.end) for task in tasks] == [
            (0, 7, 10),
            (1, 0, 10),
        ]


def test_the_limits_of_a_batch_of_a_stream(log: Log):
    """At most so many, by how much each partition has; at least so many, but no longer than so."""
    start = {"t": {"0": 2, "1": 8}}
    reader = stream_of(log, maxOffsetsPerTrigger=5)
    limit = reader.getDefaultReadLimit()
    assert isinstance(limit, ReadMaxRows)
    assert reader.latestOffset(start, limit) == {"t": {"0": 6, "1": 9}}
    patient = stream_of(log, minOffsetsPerTrigger=11, maxTriggerDelay="1h")
    assert patient.latestOffset(start, ReadAllAvailable()) is start
    content = stream_of(log, minOffsetsPerTrigger=10, maxTriggerDelay="1h")
    assert content.latestOffset(start, ReadAllAvailable()) == {"t": {"0": 10, "1": 10}}
    hasty = stream_of(log, minOffsetsPerTrigger=11, maxTriggerDelay="0ms")
    assert hasty.latestOffset(start, ReadAllAvailable()) == {"t": {"0": 10, "1": 10}}
    now = stream_of(log, minOffsetsPerTrigger=11, maxTriggerDelay="1h")
    now.prepareForTriggerAvailableNow()
    assert now.latestOffset(start, ReadAllAvailable()) == {"t": {"0": 10, "1": 10}}


def test_what_is_read_and_in_how_many_pieces(log: Log):
    assert read(log, assign='{"t":[1]}') == [each for each in ALL if each[0] == 1]
    assert read(log, subscribePattern="t|nothing") == ALL
    assert read(log, subscribe="t,other") == ALL
    assert len(batch_of(log).partitions()) == 2
    assert len(batch_of(log, minPartitions=6).partitions()) == 6
    assert [task.of.span.size for task in batch_of(log, maxRecordsPerPartition=4).partitions()] == [3, 3, 4] * 2
    start = {"t": {"0": 0, "1": 0}}
    assert len(stream_of(log, minPartitions=6).partitions(start, {"t": {"0": 10, "1": 10}})) == 6


def test_headers_are_a_column_where_they_are_asked_for(log: Log):
    options = {"path": log.location, "subscribe": "t"}
    assert "headers" not in LakelogSource(options).schema().names
    assert LakelogSource(options | {"includeHeaders": "true"}).schema().names[-1] == "headers"


def test_loss_fails_unless_it_may_be(log: Log):
    with pytest.raises(DataLoss):
        read(log, endingOffsets=EACH % (11, 10))
    assert read(log, endingOffsets=EACH % (11, 10), failOnDataLoss="FALSE") == ALL


@pytest.mark.parametrize(
    ("query", "options", "said"),
    [
        (BATCH, {"groupIdPrefix": "mine", "kafka.group.id": "g"}, "option groupIdPrefix: does nothing: a query is no"),
        (STREAM, {"fetchOffset.numRetries": "3"}, "option fetchOffset.numRetries: does nothing"),
        (STREAM, {"FETCHOFFSET.RETRYINTERVALMS": "3"}, "option fetchOffset.retryIntervalMs: does nothing"),
        (BATCH, {"maxOffsetsPerTrigger": "3"}, "option maxOffsetsPerTrigger: does nothing in a batch query"),
        (BATCH, {"minOffsetsPerTrigger": "3"}, "option minOffsetsPerTrigger: does nothing in a batch query"),
        (BATCH, {"maxTriggerDelay": "3s"}, "option maxTriggerDelay: does nothing in a batch query"),
        (STREAM, {"maxTriggerDelay": "3s", "kafka.group.id": "g", "kafkaConsumer.pollTimeoutMs": "500"}, ""),
    ],
    ids=str,
)
def test_what_does_nothing_says_so(
    log: Log, caplog: pytest.LogCaptureFixture, query: str, options: dict[str, str], said: str
):
    source = LakelogSource({"path": log.location, "subscribe": "t"} | options)
    with caplog.at_level(logging.WARNING):
        (source.reader if query == BATCH else source.streamReader)(source.schema())
    assert len(caplog.messages) == bool(said)
    assert said in caplog.text
