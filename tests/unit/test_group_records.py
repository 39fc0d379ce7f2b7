"""What is kept of a group, and that nothing else is needed."""

from __future__ import annotations

import msgspec
import pytest

from consumer_groups.model.options import Options
from consumer_groups.model.records import (
    AssignmentRecord,
    GroupRecord,
    MemberRecord,
    OffsetRecord,
    PositionRecord,
    Record,
    TopicRecord,
    decode_record,
    encode_record,
    gone,
    latest,
    table_of,
)
from consumer_groups.state.state import Groups, replay
from tests.support.group_stage import Stage, part

OFFSET = OffsetRecord(
    group="g", topic="t", topic_id="i", partition=3, next_offset=2**62, metadata="m", committed_at_ms=1
)
MEMBER = MemberRecord(group="g", member_id="m", options=Options(), joined_at_ms=5, manual=(("t", 1),), standing="away")
EACH: list[Record] = [
    GroupRecord(group="g", generation=7, empty_since_ms=5, dead_letter_topics=("g.dlq",)),
    MEMBER,
    AssignmentRecord(
        group="g", member_id="m", generation=7, target={"t": [1]}, assigned={"t": {1: 6}}, revoking={"u": {0: 2}}
    ),
    TopicRecord(group="g", topic="t", topic_id="i", partitions=4),
    PositionRecord(group="g", topic="t", topic_id="i", partition=3, resolved=1, sought=2, member_id="m"),
    OFFSET,
    gone(OFFSET.key),
]


@pytest.mark.parametrize("record", EACH, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_as_it_was(record: Record):
    assert decode_record(encode_record(record)) == record


def test_records_of_one_key_share_a_table_and_a_tombstone_does_too():
    assert [table_of(record) for record in EACH] == ["__consumer_groups"] * 5 + ["__consumer_offsets"] * 2
    assert len({record.key for record in EACH}) == len(EACH) - 1


def test_a_field_of_a_later_version_is_passed_over_and_one_of_an_earlier_has_a_default():
    stored = msgspec.json.decode(encode_record(MEMBER))
    del stored["standing"]
    del stored["options"]["rebalance.timeout.ms"]
    later = msgspec.json.encode(stored | {"rack": "r1"})
    assert decode_record(later) == msgspec.structs.replace(MEMBER, standing="active")


def test_the_latest_of_each_key_is_all_that_a_table_has_to_keep():
    older = msgspec.structs.replace(OFFSET, next_offset=1)
    assert latest([older, MEMBER, OFFSET]) == [MEMBER, OFFSET]
    assert latest([older, OFFSET, gone(OFFSET.key)]) == []


def test_replaying_what_was_displaced_takes_a_change_back():
    groups = Groups(EACH[:5])
    before = groups.records()
    displaced = [replay(groups, record) for record in (OFFSET, gone(MEMBER.key), EACH[0])]
    for record in reversed(displaced):
        replay(groups, record)
    assert sorted(map(encode_record, groups.records())) == sorted(map(encode_record, before))


def test_a_group_of_which_nothing_is_kept_is_not_there():
    groups = Groups([OFFSET])
    assert list(groups.by_name) == ["g"]
    replay(groups, gone(OFFSET.key))
    assert not groups.by_name
    replay(groups, gone(OFFSET.key))
    assert not groups.by_name


def test_a_commit_writes_one_record_and_a_join_only_what_changes():
    stage = Stage(t=100)
    for number in range(20):
        stage.join(f"m{number:02}", "t", partition_assignment_strategy="sticky")
    stage.poll("m00")
    stage.commit("m00", {next(iter(stage.owned("m00"))): 1})
    stage.commit("m00", {next(iter(stage.owned("m00"))): 2})
    assert [type(record) for record in stage.records()] == [OffsetRecord]
    stage.join("m99", partition_assignment_strategy="sticky")
    assert [type(record) for record in stage.records()] == [MemberRecord]
    stage.subscribe("m99", "t")
    assert len(stage.records()) <= 3 + len(stage.group.holdings["m99"].target)


def test_a_member_of_a_group_without_any_topic_owns_nothing_and_is_told_so():
    stage = Stage()
    stage.join("m", "later")
    assert stage.heartbeat("m").assigned == ()
    stage.change_topic("later", 1)
    assert stage.heartbeat("m").assigned == (part("later"),)
