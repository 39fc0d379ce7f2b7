"""Which record of a batch is given up: over every way in which records fail, by values alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.consume.bisection import (
    BisectionState,
    CannotBlameRecord,
    GiveUp,
    Probe,
    Work,
    begin,
    ends_of,
    extended,
    failed,
    given_up,
    passed,
    plan_step,
    probed,
    spans_between,
)
from jobs.source.positions import Range, TopicPartition

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
Place = tuple[TopicPartition, int]


class Play:
    """Somebody who does the steps. `fails` says of a record whether it does; what is in no `records` is not there."""

    def __init__(self, spans: dict[TopicPartition, Range], records: set[Place], fails: Callable[[Place], bool]) -> None:
        self.positions = {of: there.start for of, there in spans.items()}
        self.records = records
        self.fails = fails
        self.done: list[Place] = []
        self.letters: list[Place] = []
        self.steps = 0
        self.story: list[tuple[str, list[Place]]] = []

    def within(self, spans: dict[TopicPartition, Range]) -> list[Place]:
        return sorted(each for each in self.records if each[0] in spans and each[1] in range(*spans[each[0]]))

    def well(self, places: list[Place]) -> bool:
        found = not sum(self.fails(each) for each in places)
        self.story.append(("passed" if found else "failed", places))
        return found

    def commit(self, ends: dict[TopicPartition, int]) -> None:
        for of, end in ends.items():
            assert end > self.positions[of]
            self.positions[of] = end

    def run(self, course: BisectionState) -> CannotBlameRecord | None:
        while (step := plan_step(course)) is not None:
            self.steps += 1
            assert self.steps < 10_000
            match step:
                case Work(spans):
                    assert all(there.start == self.positions[of] for of, there in spans.items())
                    there = self.within(dict(spans))
                    if there and not self.well(there):
                        course = failed(course, spans)
                        continue
                    self.commit(ends_of(spans))
                    self.done += there
                    course = passed(course, spans, seen=bool(there))
                case Probe(of, span):
                    first = next(iter(self.within({of: span})), None)
                    course = probed(course, well=None if first is None else self.well([first]))
                case GiveUp(of, offset, _):
                    assert offset == self.positions[of]
                    self.commit({of: offset + 1})
                    self.letters.append((of, offset))
                    course = given_up(course)
                case CannotBlameRecord():
                    return step
        return None


SPANS = {A: Range(5, 30), B: Range(0, 1), C: Range(100, 117)}
PLACES = [(of, at) for of, there in SPANS.items() for at in range(*there)]


@given(
    st.sets(st.sampled_from(PLACES), min_size=1, max_size=12),
    st.sets(st.sampled_from(PLACES), max_size=30),
    st.integers(1, 3),
)
def test_each_record_is_done_or_a_letter_once_in_its_order_and_none_is_a_letter_that_never_failed(bad, holes, most):
    records = set(PLACES) - holes
    play = Play(SPANS, records, lambda each: each in bad)
    left = play.run(begin(SPANS, most)) if bad & records else None
    if not bad & records:
        return
    assert set(play.letters) <= bad & records
    assert not set(play.done) & set(play.letters)
    assert len(play.done) == len(set(play.done))
    for of in SPANS:
        assert [at for each, at in play.done if each == of] == sorted(at for each, at in play.done if each == of)
    if left is None:
        assert {*play.done, *play.letters} == records
        assert play.positions == ends_of(SPANS)
        assert set(play.letters) == bad & records
    else:
        places = [(of, at) for of, at in PLACES if at >= play.positions[of]]
        assert len(places) > 20 or not (records - bad).intersection(places), "one was left that would have passed"


@given(st.integers(1, 400), st.integers(1, 5))
def test_a_function_that_fails_on_everything_gives_nothing_up_and_that_is_soon_known(count, most):
    spans = {A: Range(0, count), B: Range(0, count)}
    play = Play(spans, {(of, at) for of in spans for at in range(count)}, lambda _: True)
    left = play.run(begin(spans, most))
    assert left is not None
    assert left.refuted >= 1
    assert (play.done, play.letters) == ([], [])
    assert play.steps <= 12 + most + 20


@given(st.integers(0, 499), st.integers(1, 4))
def test_one_record_among_many_is_found_by_halves(at, most):
    spans = {A: Range(0, 500)}
    play = Play(spans, {(A, n) for n in range(500)}, lambda each: each[1] == at)
    assert play.run(begin(spans, most)) is None
    assert play.letters == [(A, at)]
    assert play.steps <= 9 + most + 4


@pytest.mark.parametrize("most", [1, 2, 10])
def test_a_record_is_given_up_only_where_another_passed_between_its_failures(most):
    play = Play({A: Range(0, 9)}, {(A, n) for n in range(9)}, lambda each: each[1] == 0)
    assert play.run(begin({A: Range(0, 9)}, most)) is None
    own = [place for place, (_, places) in enumerate(play.story) if (A, 0) in places]
    other = [place for place, (what, places) in enumerate(play.story) if what == "passed" and (A, 0) not in places]
    assert own[-2] < other[0] < own[-1]


def test_what_fails_for_a_while_is_no_letter():
    """As a database that is gone: however long it takes, up to the moment that others pass."""
    for failures in range(1, 60):
        left = [failures]

        def fails(_: Place, left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] >= 0

        play = Play({A: Range(0, 8)}, {(A, n) for n in range(8)}, fails)
        play.run(begin({A: Range(0, 8)}, 4))
        assert play.letters == []


def test_a_record_without_others_waits_for_one_that_says_who_is_to_blame():
    one, two = {A: Range(7, 8)}, {A: Range(7, 10)}
    play = Play(one, {(A, 7), (A, 9)}, lambda each: each[1] == 7)
    course = begin(one, 2)
    course = failed(course, one)
    assert plan_step(course) == CannotBlameRecord(A, 7, 2, 0)
    assert play.run(extended(course, two)) is None
    assert (play.letters, play.done, play.positions) == ([(A, 7)], [(A, 9)], {A: 10})


def test_what_passes_as_there_is_nothing_in_it_says_nothing():
    spans = {A: Range(0, 4)}
    play = Play(spans, {(A, 2), (A, 3)}, lambda _: True)
    left = play.run(begin(spans, 1))
    assert left == CannotBlameRecord(A, 2, 1, 1)
    assert play.letters == []


def test_a_try_waits_longer_than_the_one_before_but_not_for_long():
    course = begin({A: Range(0, 1)}, 100)
    pauses = []
    for _ in range(12):
        step = plan_step(course)
        assert isinstance(step, Work)
        pauses.append(step.pause_s)
        course = failed(course, step.spans)
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (0.1, 5.0)


def test_a_batch_spans_what_lies_between_two_places():
    assert spans_between({A: 1, B: 5, C: 3}, {A: 4, B: 5, C: 2}) == {A: Range(1, 4)}
