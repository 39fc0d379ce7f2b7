"""The short way of one plain record comes to what the way for all comes to, or leaves it alone."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from delta_log import ProducerStamp, Record
from delta_log.model.errors import LakelogError
from delta_log.model.topic_config import TopicConfig
from delta_log.records.prepare import prepare_records
from delta_log.records.prepare_single import prepare_plain_record
from delta_log.records.validation import Rules

BYTES = st.none() | st.binary(max_size=40)
RECORDS = st.builds(
    Record,
    value=BYTES | st.just("text"),
    key=BYTES | st.just(7),
    timestamp=st.none() | st.just(5),
    headers=st.none() | st.just(()) | st.just((("a", b"b"),)),
    partition=st.none() | st.just(0),
)
CONFIGS = st.fixed_dictionaries(
    {
        "lakelog.partitioner": st.sampled_from(["murmur2", "murmur3", "md5"]),
        "lakelog.partitioner.null": st.sampled_from(["round_robin", "sticky"]),
        "max.message.bytes": st.integers(60, 200),
        "cleanup.policy": st.sampled_from(["delete", "compact"]),
    }
)


def in_full(rules: Rules, record: Record, **given: Any) -> Any:
    try:
        return prepare_records(rules, [record], **given)
    except LakelogError:
        return None


STAMPS = st.none() | st.builds(ProducerStamp, st.just("p"), st.integers(0, 3), st.integers(0, 9))


@given(RECORDS, CONFIGS, st.integers(1, 5), st.integers(0, 9), STAMPS)
def test_both_ways_come_to_the_same(
    record: Record, config: dict[str, Any], partitions: int, first_null: int, stamp: ProducerStamp | None
):
    rules = Rules.of("t", partitions, TopicConfig.of(config))
    short = prepare_plain_record(rules, record, first_null=first_null, now_ms=1000, stamp=stamp)
    full = in_full(rules, record, first_null=first_null, now_ms=1000, stamp=stamp)
    if short is None:
        return
    assert full is not None
    for others in range(1, 7) if stamp is not None else ():
        assert list(short.reassign(others)) == list(full.reassign(others))
    full.reassign = None
    assert msgspec.structs.replace(short, assignment=list(short.assignment), reassign=None) == full


def test_a_plain_record_takes_the_short_way():
    rules = Rules.of("t", 3, TopicConfig.of({}))
    for record in (Record(b"v"), Record(b"v", b"k"), Record(None, b"k"), Record()):
        assert prepare_plain_record(rules, record, first_null=1, now_ms=2) is not None
