"""What is tried in vain: counted where a member goes with something in hand, and given alone before it is given up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from consumer_groups.decisions.last_attempt import PoisonRecord
from consumer_groups.decisions.polling import decide_answer_lost
from consumer_groups.decisions.subscription import Unsubscribe, decide_unsubscribe
from consumer_groups.model.delivery_attempts import Stretch
from tests.support.group_stage import Stage, part

T0, T1 = part("t", 0), part("t", 1)


def reading(partitions: int = 1, most: int = 3, **options: object) -> Stage:
    stage = Stage(t=partitions)
    come(stage, "a", most, **options)
    return stage


def come(stage: Stage, name: str, most: int = 3, **options: object) -> None:
    given = {"auto_commit_enable": False, "session_timeout_ms": 1000, "max_poll_interval_ms": 60_000}
    stage.join(name, "t", max_delivery_attempts=most, **given | options)


def die(stage: Stage, name: str, **more: int) -> None:
    stage.leave(name, failed=True, **more)


def counted(stage: Stage, number: int = 0) -> tuple[Stretch, ...]:
    """As it is after a restart."""
    stage.restart()
    found = stage.group.attempts.get(("t-1", number))
    return () if found is None else found.stretches


def lapse(stage: Stage) -> None:
    stage.group.presences["a"].polled_at_ms = stage.now - 60_000
    stage.group.presences["a"].polling_until_ms = None
    stage.pass_time(0)


def unsubscribe(stage: Stage) -> None:
    stage.do(decide_unsubscribe(stage.group, Unsubscribe("a"), stage.cluster, stage.now))
    stage.pass_time(1000)


def lose_the_answer(stage: Stage) -> None:
    answer = stage.group.presences["a"].answer
    stage.do(decide_answer_lost(stage.group, "a", answer))
    die(stage, "a")


def succeed(stage: Stage, *, clean: bool = False) -> None:
    if clean:
        stage.leave("a")
    stage.join("b", group_instance_id="s", max_delivery_attempts=3)


@pytest.mark.parametrize(
    "goes",
    [lambda stage: stage.pass_time(1000), lapse, lambda stage: die(stage, "a"), succeed],
    ids=["it is not heard of", "it does not poll in time", "it says that it failed", "its successor comes"],
)
def test_what_a_member_had_in_hand_when_it_went_is_tried_in_vain_once(goes: Callable[[Stage], object]):
    stage = reading(group_instance_id="s")
    assert stage.poll("a") == {T0: (0, 5)}
    stage.commit("a", {T0: 2})
    goes(stage)
    stage.pass_time(10)
    assert counted(stage) == (Stretch(2, 5, 1),)


@pytest.mark.parametrize(
    "goes",
    [
        lambda stage: stage.leave("a"),
        lambda stage: (stage.begin_poll("a", wait_ms=0), stage.pass_time(1000)),
        lambda stage: (stage.commit("a", {T0: 5}), stage.pass_time(1000)),
        lambda stage: die(stage, "a", done=1),
        lambda stage: die(stage, "a", received=0),
        lambda stage: (stage.seek("a", {T0: 0}), stage.leave("a")),
        lambda stage: (stage.restart(), stage.pass_time(1000)),
        unsubscribe,
        lose_the_answer,
        lambda stage: succeed(stage, clean=True),
    ],
    ids=[
        "it leaves", "it came back", "it committed", "it was done", "it never had it", "it sought", "nobody knows",
        "it unsubscribed", "its answer was lost", "it left for its successor",
    ],
)  # fmt: skip
def test_whoever_has_nothing_in_hand_tried_nothing_in_vain(goes: Callable[[Stage], object]):
    stage = reading(group_instance_id="s")
    assert stage.poll("a") == {T0: (0, 5)}
    goes(stage)
    assert counted(stage) == ()


def test_an_answer_without_records_that_is_lost_takes_back_none_that_came_before():
    stage = reading()
    stage.poll("a", keeps=True, received=0, done=0)
    stage.begin_poll("a", keeps=True, received=1, done=0)
    lose_the_answer(stage)
    assert counted(stage) == (Stretch(0, 5, 1),)


def test_a_partition_that_moves_from_a_living_member_is_no_attempt_until_that_one_goes():
    stage = reading(partitions=2)
    stage.poll("a")
    come(stage, "b")
    stage.heartbeat("a", owned=frozenset())
    assert stage.owned("b") == {T1}
    assert counted(stage, 1) == ()


def test_a_last_try_is_alone_and_waits_until_nothing_else_is_in_hand():
    stage = reading(partitions=2)
    for name in ("a", "b"):
        if name == "b":
            come(stage, name)
        plan = stage.begin_poll(name)
        stage.end_poll(name, plan.reads[:1])
        die(stage, name)
    come(stage, "c")
    given = stage.poll("c", keeps=True, received=0, done=0)
    assert given == {T0: (0, 1)}
    assert stage.poll("c", keeps=True, received=1, done=0) == {}, "it has the last try in hand"
    assert stage.poll("c", keeps=True, received=1, done=1) == {T1: (0, 5)}, "partitions have their turns"
    waits = stage.begin_poll("c", keeps=True, received=2, done=1)
    assert (waits.reads, waits.last_try) == ((), True)
    assert stage.poll("c", keeps=True, received=2, done=2) == {T0: (1, 2)}


def test_what_came_with_others_is_never_given_up_however_many_go_at_once():
    """Two had lost the partition before, as they were too slow, and did not come back since."""
    stage = reading()
    stage.poll("a")
    for name in ("b", "c"):
        come(stage, name)
        stage.group.presences[name].tried = stage.group.presences["a"].tried
    assert stage.pass_time(1000) == ("a", "b", "c")
    assert counted(stage) == (Stretch(0, 5, 2),)


def test_what_never_came_alone_does_so_before_it_is_given_up_also_where_fewer_tries_are_allowed_now():
    stage = reading(most=3)
    for name in ("a", "b"):
        if name != "a":
            come(stage, name)
        stage.poll(name)
        die(stage, name)
    assert counted(stage) == (Stretch(0, 5, 2),)
    come(stage, "c", most=2)
    assert stage.poll("c") == {T0: (0, 1)}
    die(stage, "c")
    come(stage, "d", most=2)
    assert stage.begin_poll("d").spoiled == (PoisonRecord(T0, 0, 2),)


def test_a_letter_takes_along_what_was_counted_with_it_and_a_commit_what_it_passes():
    stage = reading()
    for name in ("a", "b", "c"):
        if name != "a":
            come(stage, name)
        stage.poll(name)
        die(stage, name)
    assert counted(stage) == (Stretch(0, 1, 3, alone=True), Stretch(1, 5, 2))
    come(stage, "d")
    assert stage.begin_poll("d").spoiled == (PoisonRecord(T0, 0, 3),)
    stage.commit("d", {T0: 3})
    assert counted(stage) == (Stretch(3, 5, 2),)
    stage.commit("d", {T0: 7})
    assert counted(stage) == ()


def test_a_topic_that_is_gone_takes_its_count_with_it():
    stage = reading()
    stage.poll("a")
    die(stage, "a")
    stage.change_topic("t", 1, "t-2")
    assert not stage.group.attempts


def test_who_came_when_nothing_was_given_up_is_not_counted_for():
    stage = reading(most=-1)
    stage.poll("a")
    die(stage, "a")
    assert counted(stage) == ()
