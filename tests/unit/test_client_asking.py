"""Asking until there is an answer: what is repeated, what is not, and what is said when it is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from lakelog.foundation.errors import NotAvailable, OutcomeUnknown, Unreachable
from lakelog.transport.backoff import Backoff
from lakelog.transport.exchange import Answer, AnswerLost, NotSent, Outcome, Request
from lakelog.transport.retry import (
    Asking,
    Heard,
    Patience,
    Pause,
    Question,
    Rejected,
    Succeeded,
    ask,
    run,
    run_async,
)
from tests.support.client_wire import AsyncWire, Wire

PATIENCE = Patience("http://server", 10.0, 4.0, 1_000, Backoff(0.1, 1.0))
QUESTION = Question("asking", Request("GET", "/"))
CHANGE = Question("changing", Request("POST", "/"))
OK = Answer(200, {}, b"{}")
LATER = Answer(503, {}, b'{"error_code":503,"message":"later","retriable":true,"outcome":"not_attempted"}')
CUT = AnswerLost("cut")


def play(asking: Asking[Succeeded], outcomes: Iterable[Outcome]) -> tuple[Succeeded, list[Request | Pause]]:
    """With these outcomes, and a clock that goes on by what is waited."""
    steps: list[Request | Pause] = []
    now, coming = 100.0, iter(outcomes)
    step = next(asking)
    while True:
        steps.append(step)
        if isinstance(step, Pause):
            now += step.seconds
        outcome = next(coming) if isinstance(step, Request) else None
        try:
            step = asking.send(Heard(now, 0.5, outcome))
        except StopIteration as end:
            return end.value, steps


def test_an_answer_is_handed_on():
    heeded, steps = play(ask(QUESTION, PATIENCE), [OK])
    assert heeded == Succeeded(OK, doubted=False)
    assert steps[-1] == QUESTION.request._replace(timeout_s=4.0)


def test_what_is_not_available_or_lost_is_asked_again_after_a_growing_wait():
    heeded, steps = play(ask(QUESTION, PATIENCE), [LATER, NotSent("refused"), CUT, OK])
    assert heeded.doubted
    assert [step.seconds for step in steps if isinstance(step, Pause)] == pytest.approx([0, 0.1, 0.2, 0.4])


@pytest.mark.parametrize(
    ("question", "kind", "says"),
    [
        (QUESTION, NotAvailable, "asking: http://server gave no whole answer: cut"),
        (
            CHANGE,
            OutcomeUnknown,
            "changing: it is unknown whether it was done (http://server gave no whole answer: cut)",
        ),
    ],
)
def test_a_server_that_never_answers_is_named(question: Question, kind: type[Exception], says: str):
    with pytest.raises(kind) as caught:
        play(ask(question, PATIENCE._replace(retries=0)), [CUT])
    assert str(caught.value) == says


def test_a_server_that_says_when_is_not_asked_before():
    later = LATER._replace(headers={"retry-after": "3"})
    _, steps = play(ask(QUESTION, PATIENCE), [later, OK])
    assert steps[2] == Pause(3.0)


def test_a_refusal_is_handed_on_with_whether_an_attempt_before_it_is_in_doubt():
    refusal = Answer(404, {}, b'{"error_code":40403,"message":"no"}')
    for before, doubted in (([], False), ([LATER], False), ([CUT], True)):
        with pytest.raises(Rejected) as caught:
            play(ask(QUESTION, PATIENCE), [*before, refusal])
        assert caught.value.doubted is doubted
        assert caught.value.fault.error.said is not None


def test_what_does_harm_when_it_is_repeated_is_repeated_only_if_it_was_surely_not_done():
    question = CHANGE._replace(repeatable=False)
    assert play(ask(question, PATIENCE), [LATER, OK])[0].answer is OK
    with pytest.raises(OutcomeUnknown):
        play(ask(question, PATIENCE), [CUT, OK])


def test_when_the_time_is_over_the_last_failure_is_told():
    with pytest.raises(Unreachable, match="http://server cannot be reached: refused"):
        play(ask(QUESTION, PATIENCE), [NotSent("refused")] * 100)
    with pytest.raises(NotAvailable, match="later"):
        play(ask(QUESTION, PATIENCE._replace(retries=1)), [LATER] * 3)


def test_a_doubt_on_the_way_is_told_at_the_end():
    with pytest.raises(OutcomeUnknown):
        play(ask(CHANGE, PATIENCE._replace(retries=1)), [CUT, NotSent("refused")])


def test_of_what_was_only_asked_nothing_is_unknown():
    with pytest.raises(Unreachable):
        play(ask(QUESTION, PATIENCE._replace(retries=1)), [CUT, NotSent("refused")])
    with pytest.raises(NotAvailable, match="asking: http://server gave no whole answer: cut") as caught:
        play(ask(QUESTION, PATIENCE._replace(retries=1)), [NotSent("refused"), CUT])
    assert caught.value.outcome == "not_attempted"


def test_no_attempt_has_more_time_than_is_left():
    outcomes = [LATER._replace(headers={"retry-after": "8"}), OK]
    _, steps = play(ask(QUESTION, PATIENCE), outcomes)
    assert [step.timeout_s for step in steps if isinstance(step, Request)] == pytest.approx([4.0, 2.0])


def test_threads_and_tasks_do_the_same():
    for_threads, for_tasks = iter([LATER, CUT, OK]), iter([LATER, CUT, OK])
    patience = PATIENCE._replace(backoff=Backoff(0.001, 0.001))
    wire, async_wire = Wire(lambda _: next(for_threads)), AsyncWire(lambda _: next(for_tasks))
    assert run(ask(QUESTION, patience), wire) == asyncio.run(run_async(ask(QUESTION, patience), async_wire))
    assert [each.path for each in wire.requests] == [each.path for each in async_wire.requests] == ["/"] * 3
