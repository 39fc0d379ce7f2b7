"""How far groups are behind, of what is committed and of what is not."""

from __future__ import annotations

import pytest

from consumer_groups.decisions.lag import (
    PartitionProgress,
    count_partitions,
    measure_progress,
    take_progress,
    total_lag,
)
from delta_log.model.types import PartitionOffsets
from tests.support.group_stage import Stage, part

T0, T1 = part("t", 0), part("t", 1)


def measured(stage: Stage) -> list[PartitionProgress]:
    return measure_progress(take_progress(stage.group), stage.ends)


def lags(stage: Stage) -> dict[int, int | None]:
    return {each.partition.partition: each.lag for each in measured(stage)}


def test_the_lag_of_what_is_committed_is_what_lies_between_that_and_the_end():
    stage = Stage(t=2)
    stage.join("a", "t")
    stage.commit("a", {T0: 3, T1: 10})
    assert lags(stage) == {0: 7, 1: 0}
    stage.append(T1, 5)
    assert lags(stage) == {0: 7, 1: 5}
    assert total_lag(measured(stage)) == 12


def test_what_is_committed_and_gone_from_the_log_counts_as_in_kafka():
    stage = Stage(t=1)
    stage.join("a", "t")
    stage.commit("a", {T0: 3})
    stage.ends[T0] = PartitionOffsets(8, 10)
    assert lags(stage) == {0: 7}


@pytest.mark.parametrize(("policy", "lag"), [("earliest", 8), ("latest", 0), ("none", None), ("by_duration:P1D", None)])
def test_where_nothing_is_committed_the_owner_is_behind_by_what_it_will_read(policy: str, lag: int | None):
    stage = Stage(t=1)
    stage.ends[T0] = PartitionOffsets(2, 10)
    stage.join("a", "t", auto_offset_reset=policy)
    (only,) = measured(stage)
    assert (only.committed, only.owner, only.lag) == (None, "a", lag)


def test_where_a_reset_policy_began_is_where_the_lag_begins():
    stage = Stage(t=1)
    stage.join("a", "t", auto_offset_reset="latest")
    stage.poll("a")
    stage.append(T0, 4)
    assert lags(stage) == {0: 4}


def test_a_partition_that_is_to_move_is_its_owners_until_it_has():
    stage = Stage(t=1)
    stage.join("z", "t", auto_commit_enable=False)
    stage.poll("z")
    stage.join("a", "t")
    (moving,) = measured(stage)
    assert (moving.owner, moving.lag) == ("z", 10)
    stage.leave("z")
    (moved,) = measured(stage)
    assert (moved.owner, moved.lag) == ("a", 10)


def test_what_a_member_reads_by_itself_has_it_as_its_owner():
    stage = Stage(t=2)
    stage.join("a")
    stage.assign("a", T1)
    (only,) = measured(stage)
    assert (only.partition, only.owner, only.lag) == (T1, "a", 10)


def test_what_was_committed_is_there_when_nobody_reads_and_what_was_not_is_unknown():
    stage = Stage(t=2)
    stage.join("a", "t", auto_commit_enable=False)
    stage.poll("a")
    stage.commit("a", {T0: 4})
    stage.leave("a")
    assert [(each.partition, each.owner, each.lag) for each in measured(stage)] == [(T0, None, 6)]


def test_a_partition_whose_log_cannot_be_asked_has_no_lag_and_is_there():
    stage = Stage(t=1)
    stage.join("a", "t")
    del stage.ends[T0]
    (only,) = measured(stage)
    assert (only.offsets, only.lag, only.owner) == (None, None, "a")


def test_what_was_taken_does_not_change_when_the_group_does():
    stage = Stage(t=2)
    stage.join("a", "t")
    before = take_progress(stage.group)
    stage.commit("a", {T0: 3})
    stage.leave("a")
    assert [(each.owner, each.lag) for each in measure_progress(before, stage.ends)] == [("a", 10), ("a", 10)]


def test_no_progress_is_about_more_partitions_than_were_counted():
    stage = Stage(t=2, u=3)
    assert count_partitions(stage.group) == 0
    stage.join("a", "t")
    stage.join("b")
    stage.assign("b", part("u", 0))
    stage.commit("a", {T0: 3})
    assert len(measured(stage)) <= count_partitions(stage.group) == 4
