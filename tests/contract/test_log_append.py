"""Appending: dense offsets, all or nothing, from many threads at once."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from delta_log import Appended, Log, OffsetRange, Record
from delta_log.model.errors import (
    Closed,
    InvalidRecord,
    RecordTooLarge,
    UnknownPartition,
    UnknownTopic,
)
from delta_log.model.partitioner import murmur2_partition
from tests.support.logs import QUIET, Place, everything, hold_tables, offsets_of, values_of


def test_offsets_are_dense_from_0_in_each_partition(log: Log):
    log.create_topic("t", 2)
    assert log.append("t", [Record(b"%d" % i, partition=0) for i in range(3)]).ranges == (OffsetRange(0, 0, 3),)
    both = log.append("t", [Record(b"3", partition=1), Record(b"4", partition=0), Record(b"5", partition=1)])
    assert both.ranges == (OffsetRange(0, 3, 1), OffsetRange(1, 0, 2))
    assert both.offsets() == [0, 3, 1]
    assert both.partitions == (1, 0, 1)
    assert [record.value for record in everything(log, "t", 0)] == [b"0", b"1", b"2", b"4"]
    assert [record.value for record in everything(log, "t", 1)] == [b"3", b"5"]


def test_a_record_comes_back_as_it_was_given(place: Place):
    log = place.open()
    log.create_topic("t")
    given = [
        Record(b"v", key=b"k", timestamp=5, headers=(("a", b"1"), ("a", None), ("", b""))),
        Record(None),
        Record(b"", key=b"", timestamp=0, headers=()),
    ]
    log.append("t", given)
    log.append_arrow("t", pa.table({"value": pa.array([b"x", None]), "timestamp": pa.array([7, None])}))

    def found() -> list[tuple[object, ...]]:
        return [(r.value, r.key, r.timestamp, r.headers) for r in everything(place.log or log, "t")]

    expected = [
        (b"v", b"k", 5, (("a", b"1"), ("a", None), ("", b""))),
        (None, None, place.clock(), ()),
        (b"", b"", 0, ()),
        (b"x", None, 7, ()),
        (None, None, place.clock(), ()),
    ]
    assert found() == expected
    log.flush()
    assert found() == expected
    place.close()
    place.open()
    assert found() == expected


def test_keys_find_the_partition_that_kafka_gives_them(log: Log):
    log.create_topic("t", 5)
    keys = [b"key-%d" % i for i in range(40)]
    appended = log.append("t", [Record(b"v", key=key) for key in keys])
    assert list(appended.partitions) == [murmur2_partition(key, 5) for key in keys]
    again = log.append_arrow("t", pa.table({"value": keys, "key": keys}))
    assert again.partitions == appended.partitions


def test_null_keys_take_turns_over_the_requests(log: Log):
    log.create_topic("t", 3)
    assert [log.append("t", [Record(b"v")] * 2).partitions for _ in range(3)] == [(0, 1), (2, 0), (1, 2)]
    log.create_topic("sticky", 3, {"lakelog.partitioner.null": "sticky"})
    assert [log.append("sticky", [Record(b"v")] * 2).partitions for _ in range(3)] == [(0, 0), (1, 1), (2, 2)]


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Record(b"x", partition=3), UnknownPartition),
        (Record(b"x" * 2_000_000), RecordTooLarge),
        (Record("text"), InvalidRecord),  # type: ignore[arg-type]
    ],
    ids=["partition", "size", "type"],
)
def test_one_bad_record_refuses_its_request_and_nothing_of_it_is_stored(log: Log, bad: Record, error: type[Exception]):
    log.create_topic("t", 3)
    with pytest.raises(error) as refused:
        log.append("t", [Record(b"0", partition=0), Record(b"1", partition=1), bad])
    assert getattr(refused.value, "index", 2) == 2
    assert [log.offsets("t", p).end_offset for p in range(3)] == [0, 0, 0]
    assert log.append("t", [Record(b"0", partition=0)]).offsets() == [0]


def test_an_unknown_topic_is_not_made(log: Log):
    with pytest.raises(UnknownTopic):
        log.append("t", [Record(b"v")])
    assert log.topics() == []


def test_the_answer_knows_the_time_of_its_append(place: Place):
    log = place.open()
    log.create_topic("t")
    place.clock.turn(5)
    assert log.append("t", [Record(b"v", timestamp=1)]).timestamp == place.clock()


def in_threads(count: int, work: Callable[[int], object]) -> None:
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(run, number) for number in range(count)]:
            done.result()


def check_contiguous(answers: list[Appended], end: int) -> None:
    """Every request has its own run of offsets; together they are all there are."""
    runs = sorted((r.base_offset, r.count) for answer in answers for r in answer.ranges)
    position = 0
    for base, count in runs:
        assert base == position
        position += count
    assert position == end


def test_many_threads_at_once_get_runs_of_their_own(log: Log):
    log.create_topic("t")
    log.create_topic("u")
    answers: list[Appended] = []

    def work(number: int) -> None:
        for step in range(25):
            topic = "tu"[step % 2]
            values = [b"%d-%d-%d" % (number, step, i) for i in range(1 + (number + step) % 3)]
            appended = log.append(topic, [Record(value) for value in values])
            first, count = appended.ranges[0].base_offset, len(values)
            read = log.read(topic, 0, first, max_records=count)
            assert [record.value for record in read.records()] == values
            if topic == "t":
                answers.append(appended)

    in_threads(8, work)
    assert offsets_of(everything(log, "t")) == list(range(log.offsets("t", 0).end_offset))
    check_contiguous(answers, log.offsets("t", 0).end_offset)
    log.flush()
    assert offsets_of(everything(log, "t")) == list(range(log.offsets("t", 0).end_offset))


def test_what_is_acknowledged_survives_a_crash(place: Place):
    log = place.open()
    log.create_topic("t", 2)
    hold_tables(log)
    log.append("t", [Record(b"%d" % i) for i in range(6)])
    log.append_arrow("t", pa.table({"value": pa.array([b"%d" % i for i in range(6, 200)])}))
    before = [values_of(log, "t", p) for p in range(2)]
    place.crash()
    log = place.open()
    assert [values_of(log, "t", p) for p in range(2)] == before
    assert "200 records of 1 topics were not in their tables yet" in log.recovery
    assert [r.base_offset for r in log.append("t", [Record(b"a"), Record(b"b")]).ranges] == [100, 100]


def test_a_request_of_any_size_is_one_unit(place: Place):
    """Larger than a journal segment, larger than a group."""
    log = place.open()
    log.create_topic("t", 3, {"max.message.bytes": 20_000_000})
    hold_tables(log)
    log.append("t", [Record(bytes([i]) * 3_000_000, partition=i % 3) for i in range(4)])
    log.append("t", [Record(b"small")])
    place.crash()
    log = place.open()
    assert [len(values_of(log, "t", p)) for p in range(3)] == [3, 1, 1]


def test_a_closed_log_says_so(place: Place):
    log = place.open(QUIET)
    log.create_topic("t")
    log.append("t", [Record(b"v")])
    log.close()
    log.close()
    for use in (
        lambda: log.append("t", [Record(b"v")]),
        lambda: log.read("t", 0, 0),
        lambda: log.offsets("t", 0),
        log.topics,
        log.flush,
        lambda: log.create_topic("u"),
        lambda: log.delete_topic("t"),
        lambda: log.describe_topic("t"),
        log.run_upkeep,
    ):
        with pytest.raises(Closed):
            use()
    place.log = None
    assert values_of(place.open(), "t") == [b"v"]
