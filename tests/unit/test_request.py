"""What a request must be, whichever form it comes in: as objects or as Arrow."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from delta_log.model.errors import InvalidRecord, InvalidTimestamp, LakelogError, RecordTooLarge, UnknownPartition
from delta_log.model.partitioner import murmur2_partition
from delta_log.model.schema import HEADERS
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import ProducerStamp, Record
from delta_log.records.prepare import prepare_arrow, prepare_records
from delta_log.records.request import Request
from delta_log.records.row_codec import Run, to_batches
from delta_log.records.validation import LATEST_TIMESTAMP, Rules, record_size

NOW = 1_800_000_000_000
HOUR = 3_600_000

Prepare = Callable[..., Request]


def rules(partitions: int = 1, **config: object) -> Rules:
    return Rules.of("t", partitions, TopicConfig.of({name.replace("_", "."): value for name, value in config.items()}))


def as_arrow(records: Sequence[Record]) -> pa.Table:
    """The same records as a client's Arrow; a column that says nothing is left out."""
    headers = [
        None if r.headers is None else [{"key": name, "value": value} for name, value in r.headers] for r in records
    ]
    columns: dict[str, tuple[Sequence[object], pa.DataType]] = {
        "key": ([r.key for r in records], pa.binary()),
        "value": ([r.value for r in records], pa.binary()),
        "partition": ([r.partition for r in records], pa.int32()),
        "timestamp": ([r.timestamp for r in records], pa.int64()),
        "headers": (headers, HEADERS),
    }
    kept = {
        name: pa.array(column, kind)
        for name, (column, kind) in columns.items()
        if name == "value" or any(item is not None for item in column)
    }
    return pa.table(kept)


def by_objects(given: Rules, records: Sequence[Record], **more: Any) -> Request:
    return prepare_records(given, records, **{"first_null": 0, "now_ms": NOW, **more})


def by_arrow(given: Rules, records: Sequence[Record], **more: Any) -> Request:
    return prepare_arrow(given, as_arrow(records), **{"first_null": 0, "now_ms": NOW, **more})


@pytest.fixture(params=[by_objects, by_arrow], ids=["objects", "arrow"])
def prepare(request: pytest.FixtureRequest) -> Prepare:
    return request.param


def rows_of(request: Request) -> dict[int, list[dict[str, Any]]]:
    """Of each partition, what a reader would see."""
    return {
        part.partition: [row for batch in to_batches([Run(0, part.rows, request.stamp)]) for row in batch.to_pylist()]
        for part in request.parts
    }


def times_of(request: Request) -> list[int]:
    return [int(row["timestamp"].timestamp() * 1000) for row in rows_of(request)[0]]


def test_an_empty_request_is_refused(prepare: Prepare):
    with pytest.raises(InvalidRecord, match="at least one record"):
        prepare(rules(), [])


def test_null_and_empty_are_kept_apart(prepare: Prepare):
    records = [Record(None, key=b""), Record(b"", key=None), Record(b"v", key=b"k")]
    found = [(row["key"], row["value"]) for row in rows_of(prepare(rules(), records))[0]]
    assert found == [(b"", None), (None, b""), (b"k", b"v")]


def test_a_record_without_a_time_is_given_that_of_its_append(prepare: Prepare):
    assert times_of(prepare(rules(), [Record(b"a", timestamp=5), Record(b"b")])) == [5, NOW]
    assert times_of(prepare(rules(), [Record(b"a")])) == [NOW]


def test_log_append_time_overrides_the_producers(prepare: Prepare):
    given = rules(message_timestamp_type="LogAppendTime")
    assert times_of(prepare(given, [Record(b"a", timestamp=5), Record(b"b", timestamp=NOW + 10 * HOUR)])) == [NOW, NOW]


@pytest.mark.parametrize(
    ("timestamp", "fits"),
    [
        (NOW - HOUR, True),
        (NOW - HOUR - 1, False),
        (NOW + 2 * HOUR, True),
        (NOW + 2 * HOUR + 1, False),
    ],
)
def test_a_timestamp_may_lie_so_far_before_and_after_the_clock_and_no_further(
    prepare: Prepare, timestamp: int, fits: bool
):
    given = rules(message_timestamp_before_max_ms=HOUR, message_timestamp_after_max_ms=2 * HOUR)
    records = [Record(b"a"), Record(b"b", timestamp=timestamp)]
    if fits:
        assert times_of(prepare(given, records)) == [NOW, timestamp]
        return
    with pytest.raises(InvalidTimestamp) as refused:
        prepare(given, records)
    assert (refused.value.index, refused.value.timestamp) == (1, timestamp)


def test_timestamps_reach_from_1970_to_9999_and_no_further(prepare: Prepare):
    given = rules(message_timestamp_after_max_ms=2**62)
    first, last = Record(b"", timestamp=0), Record(b"", timestamp=LATEST_TIMESTAMP)
    prepare(given, [first, last])
    for wrong in (-1, LATEST_TIMESTAMP + 1):
        with pytest.raises(InvalidTimestamp) as refused:
            prepare(given, [first, Record(b"", timestamp=wrong)])
        assert refused.value.index == 1


def test_a_compacted_topic_wants_keys(prepare: Prepare):
    given = rules(cleanup_policy="compact,delete")
    prepare(given, [Record(b"v", key=b"")])
    with pytest.raises(InvalidRecord, match="needs a key") as refused:
        prepare(given, [Record(b"v", key=b"k"), Record(b"v"), Record(b"v")])
    assert refused.value.index == 1


def test_keys_go_where_kafka_puts_them_and_nulls_in_turn(prepare: Prepare):
    keys = [b"a", None, b"b", None, b"", b"a"]
    request = prepare(rules(7), [Record(b"v", key=key) for key in keys], first_null=6)
    hashed = [None if key is None else murmur2_partition(key, 7) for key in keys]
    assert list(request.assignment) == [hashed[0], 6, hashed[2], 0, hashed[4], hashed[5]]
    assert request.nulls == 2


def test_sticky_nulls_stay_together(prepare: Prepare):
    given = Rules.of("t", 3, TopicConfig.of({"lakelog.partitioner.null": "sticky"}))
    request = prepare(given, [Record(b"v")] * 4, first_null=5)
    assert (list(request.assignment), request.nulls) == ([2, 2, 2, 2], 1)


def test_an_explicit_partition_goes_before_the_key(prepare: Prepare):
    request = prepare(rules(4), [Record(b"1", key=b"k", partition=3), Record(b"2"), Record(b"3", partition=0)])
    assert list(request.assignment) == [3, 0, 0]
    assert [part.partition for part in request.parts] == [0, 3]


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("wrong", [4, -1])
def test_a_partition_that_is_not_there_refuses_the_request(prepare: Prepare, partitions: int, wrong: int):
    with pytest.raises(UnknownPartition) as refused:
        prepare(rules(partitions), [Record(b"1"), Record(b"2", partition=wrong)])
    assert (refused.value.partition, refused.value.partitions) == (wrong, partitions)


def test_each_partition_keeps_the_order_of_the_request(prepare: Prepare):
    records = [Record(b"%d" % i, partition=i % 3) for i in range(11)]
    found = {place: [row["value"] for row in rows] for place, rows in rows_of(prepare(rules(3), records)).items()}
    assert found == {place: [b"%d" % i for i in range(place, 11, 3)] for place in range(3)}


def test_sequences_follow_the_request_across_partitions(prepare: Prepare):
    stamp = ProducerStamp("p", 2, 40)
    request = prepare(rules(2), [Record(b"v", partition=i % 2) for i in range(5)], stamp=stamp)
    found = {place: [row["sequence"] for row in rows] for place, rows in rows_of(request).items()}
    assert found == {0: [40, 42, 44], 1: [41, 43]}
    assert {row["producer_id"] for rows in rows_of(request).values() for row in rows} == {"p"}
    assert {row["producer_epoch"] for rows in rows_of(request).values() for row in rows} == {2}


@pytest.mark.parametrize(
    ("record", "size"),
    [
        # RECORD_BATCH_OVERHEAD 61 + MAX_RECORD_OVERHEAD 21 + what Kafka's DefaultRecord.sizeOf counts
        (Record(None), 61 + 21 + 1 + 1 + 1),
        (Record(b"", key=b""), 61 + 21 + 1 + 1 + 1),
        (Record(b"x" * 63), 61 + 21 + 1 + (1 + 63) + 1),
        (Record(b"x" * 64), 61 + 21 + 1 + (2 + 64) + 1),
        (Record(b"x" * 8192, key=b"k" * 100), 61 + 21 + (2 + 100) + (3 + 8192) + 1),
        (Record(b"x", headers=(("é", b"yy"), ("n", None))), 61 + 21 + 1 + 2 + 1 + (1 + 2 + 1 + 2) + (1 + 1 + 1)),
    ],
)
def test_a_record_is_counted_as_kafka_counts_it(prepare: Prepare, record: Record, size: int):
    assert record_size(record.key, record.value, record.headers) == size
    prepare(rules(max_message_bytes=size), [record])
    with pytest.raises(RecordTooLarge) as refused:
        prepare(rules(max_message_bytes=size - 1), [record])
    assert (refused.value.index, refused.value.size, refused.value.limit) == (0, size, size - 1)


def test_the_first_record_that_is_too_large_is_named(prepare: Prepare):
    with pytest.raises(RecordTooLarge) as refused:
        prepare(rules(max_message_bytes=200), [Record(b"1"), Record(b"2" * 300), Record(b"3" * 400)])
    assert (refused.value.index, refused.value.limit) == (1, 200)


def test_many_small_records_are_not_one_large_one(prepare: Prepare):
    assert prepare(rules(max_message_bytes=200), [Record(b"x" * 50)] * 100).count == 100


def test_headers_come_through_in_order_with_their_nulls(prepare: Prepare):
    headers = (("a", b"1"), ("a", None), ("", b""))
    found = rows_of(prepare(rules(), [Record(b"v", headers=headers), Record(b"v")]))[0]
    assert [(item["key"], item["value"]) for item in found[0]["headers"]] == list(headers)
    assert found[1]["headers"] is None


def test_the_same_request_has_the_same_digest_and_another_has_another(prepare: Prepare):
    records = [Record(b"v", key=b"k", timestamp=5, headers=(("h", b"1"),)), Record(None, partition=1)]
    stamp = ProducerStamp("p", 0, 0)

    def digest(given: Sequence[Record], now_ms: int = NOW) -> bytes:
        return prepare(rules(2), given, stamp=stamp, now_ms=now_ms).digest

    assert digest(records) == digest(records, NOW + 1) != b""
    others = [
        [Record(b"w", key=b"k", timestamp=5, headers=(("h", b"1"),)), records[1]],
        [Record(b"v", key=b"K", timestamp=5, headers=(("h", b"1"),)), records[1]],
        [Record(b"v", key=b"k", timestamp=6, headers=(("h", b"1"),)), records[1]],
        [Record(b"v", key=b"k", timestamp=5, headers=(("h", b"2"),)), records[1]],
        [records[0], Record(b"", partition=1)],
        [records[0], Record(None, partition=0)],
        [records[0]],
    ]
    assert len({digest(records), *map(digest, others)}) == len(others) + 1


def test_the_digest_does_not_know_the_topics_settings(prepare: Prepare):
    """A setting that changes between a request and its repeat does not make other content of it."""
    records, stamp = [Record(b"v", timestamp=5)], ProducerStamp("p", 0, 0)
    one = prepare(rules(), records, stamp=stamp)
    other = prepare(rules(3, message_timestamp_type="LogAppendTime"), records, stamp=stamp)
    assert one.digest == other.digest


@pytest.mark.parametrize(
    "stamp",
    [
        ProducerStamp("", 0, 0),
        ProducerStamp("x" * 256, 0, 0),
        ProducerStamp("\ud800", 0, 0),
        ProducerStamp("a\nb", 0, 0),
        ProducerStamp("p", -1, 0),
        ProducerStamp("p", 2**31, 0),
        ProducerStamp("p", 0, -1),
        ProducerStamp("p", 0, 2**63 - 1),
        ProducerStamp("p", True, 0),
        ProducerStamp("p", 0, 0.5),  # type: ignore[arg-type]
    ],
    ids=lambda stamp: repr(stamp)[:60],
)
def test_a_producer_that_no_table_could_hold_is_refused(prepare: Prepare, stamp: ProducerStamp):
    with pytest.raises(LakelogError) as refused:
        prepare(rules(), [Record(b"1"), Record(b"2")], stamp=stamp)
    assert refused.value.outcome == "not_attempted"


def test_the_last_sequence_of_all_can_be_used(prepare: Prepare):
    request = prepare(rules(), [Record(b"1")], stamp=ProducerStamp("p", 2**31 - 1, 2**63 - 2))
    assert rows_of(request)[0][0]["sequence"] == 2**63 - 2


def test_a_request_knows_for_how_many_partitions_it_was_assigned(prepare: Prepare):
    assert prepare(rules(3), [Record(b"1")]).partitions == 3
