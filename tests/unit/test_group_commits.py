"""How far a group is, and who may say so."""

from __future__ import annotations

import pytest

from consumer_groups.decisions.commits import Commit, Commitment, decide_commit, read_committed
from consumer_groups.model.errors import (
    InvalidOffset,
    MetadataTooLarge,
    NotAssigned,
    PartitionNotOwned,
    PartitionUnavailable,
)
from delta_log.model.errors import UnknownPartition, UnknownTopic
from delta_log.model.types import PartitionOffsets
from tests.support.group_stage import Stage, part

T0, T1 = part("t", 0), part("t", 1)


def reading(**options: object) -> Stage:
    stage = Stage(t=2)
    stage.join("a", "t", **({"auto_commit_enable": False} | options))
    return stage


def test_a_commit_without_offsets_is_exactly_what_was_delivered():
    stage = reading()
    assert stage.commit("a") == {}
    stage.poll("a")
    assert stage.commit("a") == {T0: 5, T1: 5}
    assert stage.commit("a") == {}


def test_a_commit_without_offsets_never_lowers():
    stage = reading()
    stage.poll("a")
    stage.commit("a", {T0: 9})
    assert stage.commit("a") == {T1: 5}
    assert stage.committed(T0) == 9


def test_the_owner_may_commit_what_it_likes_within_the_log():
    stage = reading()
    for offset in (10, 0, 7):
        stage.commit("a", {T0: offset})
        assert stage.committed(T0) == offset


@pytest.mark.parametrize("offset", [-1, 11, True, 2**70])
def test_a_commit_outside_of_the_log_is_refused(offset: int):
    stage = reading()
    with pytest.raises(InvalidOffset) as refused:
        stage.commit("a", {T0: offset})
    assert (refused.value.least, refused.value.most) == (0, 10)


def test_a_commit_is_refused_or_stored_as_a_whole():
    stage = reading()
    for bad, error in ((part("t", 2), UnknownPartition), (part("x"), UnknownTopic), (T1, InvalidOffset)):
        with pytest.raises(error):
            stage.commit("a", {T0: 1, bad: 99})
    assert stage.committed(T0) is None


def test_metadata_is_kept_up_to_its_limit():
    stage = reading()
    for metadata, fits in (("ä" * 2048, True), ("ä" * 2048 + "x", False), ("\udc00", False)):
        command = Commit("a", {T0: Commitment(1, metadata)})
        if fits:
            stage.do(decide_commit(stage.group, command, stage.cluster, stage.ends, stage.now))
            continue
        with pytest.raises(MetadataTooLarge):
            decide_commit(stage.group, command, stage.cluster, stage.ends, stage.now)
    assert read_committed(stage.group, (T0, T1), stage.cluster)[T0].metadata == "ä" * 2048
    assert T1 not in read_committed(stage.group, (T0, T1), stage.cluster)


def test_a_partition_that_cannot_be_asked_is_not_committed():
    stage = reading()
    del stage.ends[T0]
    with pytest.raises(PartitionUnavailable):
        stage.commit("a", {T0: 1})


def test_who_has_no_subscription_owns_nothing_to_commit():
    stage = reading()
    stage.join("b")
    with pytest.raises(PartitionNotOwned):
        stage.commit("b", {T0: 1})
    assert stage.commit("b") == {}


def test_who_is_assigned_by_itself_commits_what_nobody_owns():
    stage = Stage(t=2)
    stage.join("a")
    stage.assign("a", T0)
    stage.poll("a")
    assert stage.commit("a") == {T0: 5}
    with pytest.raises(PartitionNotOwned):
        stage.commit("a", {T1: 1})
    stage.join("b", "t")
    for offsets in (None, {T0: 7}):
        with pytest.raises(PartitionNotOwned):
            stage.commit("a", offsets)
    assert stage.committed(T0) == 5


def test_auto_commit_commits_what_earlier_polls_delivered_and_not_the_last():
    stage = reading(auto_commit_enable=True, auto_commit_interval_ms=1000)
    stage.poll("a", most=3)
    stage.pass_time(5000)
    assert stage.committed(T0) is None
    stage.poll("a", most=3)
    assert stage.committed(T0) == 3
    stage.pass_time(5000)
    assert stage.committed(T0) == 3


def test_auto_commit_waits_for_its_interval_and_then_for_no_poll():
    stage = reading(auto_commit_enable=True, auto_commit_interval_ms=1000)
    stage.poll("a", most=3)
    stage.now += 500
    stage.poll("a", most=3)
    assert stage.committed(T0) is None
    stage.pass_time(499)
    assert stage.committed(T0) is None
    stage.pass_time(1)
    assert stage.committed(T0) == 3


def test_leaving_commits_all_that_was_delivered():
    stage = reading(auto_commit_enable=True)
    stage.poll("a", most=3)
    stage.leave("a")
    assert stage.committed(T0) == 3


def test_a_session_that_ends_commits_what_earlier_polls_delivered():
    stage = reading(auto_commit_enable=True, auto_commit_interval_ms=100_000, session_timeout_ms=1000)
    stage.poll("a", most=3)
    stage.poll("a", most=3)
    stage.pass_time(1000)
    assert stage.committed(T0) == 3


def test_nothing_is_committed_of_those_who_commit_themselves():
    stage = reading()
    stage.poll("a")
    stage.poll("a")
    stage.pass_time(10_000)
    stage.leave("a")
    assert stage.committed(T0) is None


def test_auto_commit_lowers_only_where_the_owner_went_back():
    stage = reading(auto_commit_enable=True, auto_commit_interval_ms=0)
    stage.poll("a", most=8)
    stage.commit("a", {T1: 9})
    stage.poll("a", most=1)
    assert (stage.committed(T0), stage.committed(T1)) == (8, 9)
    stage.seek("a", {T0: 2})
    stage.poll("a", most=1)
    assert stage.committed(T0) == 9
    stage.poll("a", most=1)
    assert stage.committed(T0) == 3


def test_a_seek_is_read_on_from_also_after_a_restart():
    stage = reading()
    stage.poll("a")
    stage.commit("a")
    stage.seek("a", {T0: 2, T1: "end"})
    stage.append(T1)
    assert stage.poll("a", most=2) == {T0: (2, 4), T1: (10, 12)}
    stage.restart()
    assert stage.poll("a", most=2) == {T0: (2, 4), T1: (10, 12)}


def test_a_commit_behind_a_seek_ends_it():
    stage = reading()
    stage.seek("a", {T0: 2})
    stage.poll("a", most=2)
    stage.commit("a")
    assert not stage.group.positions
    stage.restart()
    assert stage.poll("a", most=2)[T0] == (4, 6)


def test_a_commit_of_what_was_delivered_before_a_seek_leaves_it_be():
    stage = reading()
    stage.poll("a", most=2)
    stage.seek("a", {T0: 7})
    assert stage.commit("a") == {T0: 2, T1: 2}
    stage.restart()
    assert stage.poll("a", most=2)[T0] == (7, 9)


def test_a_seek_ends_with_its_owner():
    stage = reading()
    stage.poll("a", most=2)
    stage.commit("a")
    stage.seek("a", {T0: 7})
    stage.leave("a")
    stage.join("b", "t")
    assert stage.poll("b", most=2)[T0] == (2, 4)


def test_a_seek_that_survived_a_restart_ends_with_its_owner_too():
    stage = reading()
    stage.seek("a", {T0: 7})
    stage.restart()
    stage.leave("a")
    assert not stage.group.positions


def test_a_seek_needs_a_partition_that_is_assigned():
    stage = reading()
    stage.join("b")
    for member_id, partition, error in (("b", T0, NotAssigned), ("a", part("t", 7), UnknownPartition)):
        with pytest.raises(error):
            stage.seek(member_id, {partition: 1})
    with pytest.raises(InvalidOffset):
        stage.seek("a", {T0: -1})


def test_a_seek_beyond_the_log_is_for_the_reset_policy():
    stage = reading()
    stage.seek("a", {T0: 99})
    assert stage.poll("a")[T0] == (0, 5)


def test_where_a_seek_went_out_of_range_only_its_owner_is_reset():
    stage = reading(auto_offset_reset="latest")
    stage.commit("a", {T0: 5})
    stage.seek("a", {T0: 0})
    stage.ends[T0] = PartitionOffsets(3, 10)
    assert T0 not in stage.poll("a")
    stage.leave("a")
    stage.join("b", "t")
    assert stage.poll("b")[T0] == (5, 10)
