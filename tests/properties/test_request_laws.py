"""However a request is split, each partition gets its own records in their order, and the answer names each place."""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from delta_log import Appended, OffsetRange, Record
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import ProducerStamp
from delta_log.records.prepare import prepare_arrow, prepare_records
from delta_log.records.record_columns import RecordColumns
from delta_log.records.row_codec import RowBlock
from delta_log.records.sequences import join_sequences
from delta_log.records.validation import Rules
from ingest_api.routes.records.receipts import Offsets, Place, offsets_answer

PARTITIONS = 4
HEADERS = st.none() | st.just((("a", b"b"),))
#: Long runs alike, and any mixture.
KEYS = st.lists(st.none(), min_size=1, max_size=40) | st.lists(
    st.none() | st.binary(max_size=3), min_size=1, max_size=40
)
PLACES = st.none() | st.lists(st.none() | st.integers(0, PARTITIONS - 1), min_size=40, max_size=40)


@st.composite
def requests(draw: st.DrawFn) -> list[Record]:
    keys, places = draw(KEYS), draw(PLACES)
    times, headers = draw(st.none() | st.integers(0, 9)), draw(HEADERS)
    return [
        Record(b"%d" % index, key, None if times is None else times + index, headers, places[index] if places else None)
        for index, key in enumerate(keys)
    ]


@given(requests(), st.integers(0, 9), st.sampled_from(["round_robin", "sticky"]), st.booleans())
def test_each_partition_gets_its_records_in_their_order(
    records: list[Record], first_null: int, nulls: str, stamped: bool
):
    config = TopicConfig.of({"lakelog.partitioner.null": nulls, "message.timestamp.before.max.ms": 2**62})
    stamp = ProducerStamp("p", 0, 7) if stamped else None
    rules = Rules.of("t", PARTITIONS, config)
    request = prepare_records(rules, records, first_null=first_null, now_ms=100, stamp=stamp)
    assert [part.partition for part in request.parts] == sorted(set(request.assignment))
    for part in request.parts:
        own = [at for at, place in enumerate(request.assignment) if place == part.partition]
        rows: Any = part.rows
        assert isinstance(rows, RowBlock)
        assert rows.values == [records[at].value for at in own]
        assert rows.keys == [records[at].key for at in own]
        assert rows.headers is None or rows.headers == [records[at].headers for at in own]
        given_times = [100 if records[at].timestamp is None else records[at].timestamp for at in own]
        assert rows.timestamps in (given_times, 100)
        if stamp is not None:
            assert rows.sequences is not None
            assert join_sequences([rows.sequences], np.array([len(own)])).tolist() == [7 + at for at in own]


@given(requests(), st.booleans())
def test_columns_and_records_are_the_same_request(records: list[Record], stamped: bool):
    rules = Rules.of("t", PARTITIONS, TopicConfig.of({"message.timestamp.before.max.ms": 2**62}))
    stamp = ProducerStamp("p", 0, 7) if stamped else None
    one = prepare_records(rules, records, first_null=1, now_ms=100, stamp=stamp)
    other = prepare_records(rules, RecordColumns.of(records), first_null=1, now_ms=100, stamp=stamp)
    assert msgspec.structs.replace(one, reassign=None) == msgspec.structs.replace(other, reassign=None)


@given(st.lists(st.integers(0, 11), min_size=1, max_size=60), st.integers(0, 2**40))
def test_the_answer_names_the_place_of_each_record(partitions: list[int], base: int):
    ranges = tuple(OffsetRange(p, base + 1000 * p, partitions.count(p)) for p in sorted(set(partitions)))
    seen: dict[int, int] = {}
    expected: list[Place] = []
    for partition in partitions:
        offset = base + 1000 * partition + seen.get(partition, 0)
        seen[partition] = seen.get(partition, 0) + 1
        expected.append(Place(partition, offset))
    answer = offsets_answer(Appended(ranges, tuple(partitions), 0), len(partitions))
    assert answer == msgspec.json.encode(Offsets(expected, None, None)) + b"\n"


@given(requests(), st.integers(0, 9))
def test_a_few_records_in_arrow_are_the_request_that_their_objects_are(records: list[Record], first_null: int):
    plain = [Record(record.value, record.key, partition=record.partition) for record in records]
    rules = Rules.of("t", PARTITIONS, TopicConfig.of({}))
    columns = {
        "key": pa.array([record.key for record in plain], pa.binary()),
        "value": pa.array([record.value for record in plain], pa.binary()),
        "partition": pa.array([record.partition for record in plain], pa.int32()),
    }
    one = prepare_records(rules, plain, first_null=first_null, now_ms=100)
    assert prepare_arrow(rules, pa.table(columns), first_null=first_null, now_ms=100) == one
