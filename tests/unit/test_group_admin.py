"""Groups seen and set from outside."""

from __future__ import annotations

import inspect

import pytest

from consumer_groups.decisions.admin import (
    Found,
    GroupSummary,
    Reset,
    Shift,
    decide_delete,
    decide_put_offsets,
    decide_reset,
    describe_group,
    list_groups,
    state_of,
)
from consumer_groups.decisions.commits import Commitment
from consumer_groups.model import errors
from consumer_groups.model.errors import GroupNotEmpty, InvalidOffset, UnknownGroup
from delta_log.model.errors import LakelogError
from delta_log.model.types import PartitionOffsets
from tests.support.group_stage import Stage, part

T0, T1 = part("t", 0), part("t", 1)


def put(stage: Stage, **offsets: int) -> None:
    given = {part("t", int(name[1:])): Commitment(offset) for name, offset in offsets.items()}
    stage.do(decide_put_offsets(stage.group, given, stage.cluster, stage.ends, stage.now))


def test_a_group_has_a_state():
    stage = Stage(t=2)
    assert state_of(stage.group) == "Dead"
    put(stage, t0=3)
    assert state_of(stage.group) == "Empty"
    stage.join("a")
    assert state_of(stage.group) == "Empty"
    stage.subscribe("a", "t")
    assert state_of(stage.group) == "Stable"
    stage.poll("a")
    stage.join("b", "t")
    assert state_of(stage.group) == "Reconciling"
    assert list_groups(stage.groups) == [GroupSummary("g", "Reconciling", 2, "range", 2)]


def test_a_group_is_described_with_its_members_and_offsets():
    stage = Stage(t=2)
    with pytest.raises(UnknownGroup):
        describe_group(stage.group)
    stage.join("a", "t", auto_commit_enable=False)
    stage.poll("a")
    stage.commit("a", {T1: 2})
    stage.join("b", "t")
    described = describe_group(stage.group)
    assert described.summary == GroupSummary("g", "Reconciling", 2, "range", 2)
    a, b = described.members
    assert (a.assigned, a.revoking, a.target) == ((T0,), (T1,), (T0,))
    assert (b.assigned, b.revoking, b.target) == ((), (), (T1,))
    assert [(record.partition, record.next_offset) for record in described.committed] == [(1, 2)]


def test_offsets_are_put_where_nobody_reads_and_are_read_from():
    stage = Stage(t=2)
    put(stage, t0=3)
    stage.join("a")
    put(stage, t0=4)
    stage.subscribe("a", "t")
    with pytest.raises(GroupNotEmpty):
        put(stage, t0=5)
    with pytest.raises(InvalidOffset):
        put(Stage(t=2), t0=11)
    assert stage.poll("a") == {T0: (4, 9), T1: (0, 5)}


def test_putting_offsets_ends_where_the_reset_policy_began():
    stage = Stage(t=1)
    stage.join("a", "t", auto_offset_reset="latest")
    stage.poll("a")
    stage.leave("a")
    put(stage, t0=2)
    stage.join("b", "t", auto_offset_reset="latest")
    assert stage.poll("b") == {T0: (2, 7)}


@pytest.mark.parametrize(
    ("target", "after"),
    [
        ("earliest", 2),
        ("latest", 10),
        (5, 5),
        (0, 2),
        (99, 10),
        (Shift(-1), 5),
        (Shift(-9), 2),
        (Shift(9), 10),
        (Found(7), 7),
        (Found(None), 10),
    ],
)
def test_a_reset_ends_inside_the_log(target: object, after: int):
    stage = Stage(t=1)
    put(stage, t0=6)
    stage.ends[T0] = PartitionOffsets(2, 10)
    decision = decide_reset(stage.group, {T0: target}, stage.cluster, stage.ends, stage.now)
    assert decision.reply == {T0: Reset(6, after)}
    assert stage.committed(T0) == 6
    stage.do(decision)
    assert stage.committed(T0) == after


def test_a_reset_needs_a_group_without_readers_and_something_to_shift():
    stage = Stage(t=1)
    with pytest.raises(UnknownGroup):
        decide_reset(stage.group, {T0: 1}, stage.cluster, stage.ends, stage.now)
    put(stage)
    stage.join("a")
    with pytest.raises(InvalidOffset):
        decide_reset(stage.group, {T0: Shift(1)}, stage.cluster, stage.ends, stage.now)
    stage.assign("a", T0)
    with pytest.raises(GroupNotEmpty):
        decide_reset(stage.group, {T0: 1}, stage.cluster, stage.ends, stage.now)


def test_a_group_is_deleted_when_it_has_no_members():
    stage = Stage(t=1)
    with pytest.raises(UnknownGroup):
        decide_delete(stage.group)
    stage.join("a")
    stage.commit("a")
    with pytest.raises(GroupNotEmpty) as refused:
        decide_delete(stage.group)
    assert refused.value.members == 1
    stage.leave("a")
    stage.do(decide_delete(stage.group))
    assert not stage.groups.by_name


def test_the_drawing_of_the_errors_has_every_error():
    tree = [name for name, each in inspect.getmembers(errors, inspect.isclass) if each.__module__ == errors.__name__]
    assert len(tree) > 15
    assert [name for name in tree if name not in (errors.__doc__ or "")] == []


def test_whatever_a_group_refuses_was_not_attempted():
    for _, each in inspect.getmembers(errors, inspect.isclass):
        assert issubclass(each, LakelogError)
        assert each.outcome == "not_attempted"
