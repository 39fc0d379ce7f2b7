"""Retries of a request until there is an answer or the deadline has passed.

The logic is written once, as a generator that yields steps and is sent their outcomes; `run` drives it in a thread,
`run_async` in a task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from typing import NamedTuple, TypeVar

from lakelog.foundation.errors import LakelogError, NotAvailable, OutcomeUnknown, Unreachable
from lakelog.transport import jitter as chance
from lakelog.transport.backoff import Backoff
from lakelog.transport.exchange import Answer, AnswerLost, AsyncTransport, NotSent, Outcome, Request, Transport
from lakelog.transport.server_errors import Fault, read_fault

T = TypeVar("T")


class Pause(NamedTuple):
    """Wait for this long."""

    seconds: float


class Heard(NamedTuple):
    """Outcome of a request or of a pause, with the time and a random number."""

    now: float
    chance: float
    outcome: Outcome | None


Asking = Generator[Request | Pause, Heard, T]


class Patience(NamedTuple):
    """Limits of a request: its total time, the time and number of its attempts, and the pauses between them."""

    address: str
    total_s: float
    request_s: float
    retries: int
    backoff: Backoff


class Question(NamedTuple):
    """A request to retry. `what` begins an error message about it. `repeatable`: it is idempotent."""

    what: str
    request: Request
    repeatable: bool = True


class Succeeded(NamedTuple):
    """An answer of 2xx; `doubted`: an earlier attempt may have done the work already."""

    answer: Answer
    doubted: bool


class Rejected(Exception):
    """A refusal; `doubted`: an earlier attempt may have done the work all the same."""

    def __init__(self, fault: Fault, *, doubted: bool) -> None:
        super().__init__(str(fault.error))
        self.fault, self.doubted = fault, doubted


def ask(question: Question, patience: Patience) -> Asking[Succeeded]:
    """Send until an answer of 2xx; raises `Rejected` if no retry can help, or the last error after the last retry."""
    now = (yield Pause(0)).now
    deadline = now + patience.total_s
    failures, doubted = 0, False
    while True:
        timeout_s = min(patience.request_s, max(0.001, deadline - now))
        now, chance, outcome = yield question.request._replace(timeout_s=timeout_s)
        if isinstance(outcome, Answer) and 200 <= outcome.status < 300:
            return Succeeded(outcome, doubted)
        fault = fault_of(outcome, question.what, patience.address)
        failures += 1
        if not fault.again:
            raise Rejected(fault, doubted=doubted)
        doubted = doubted or fault.unknown
        pause_s = max(patience.backoff.pause_s(failures, chance), fault.retry_after_s)
        no_repeat = fault.unknown and not question.repeatable
        if no_repeat or failures > patience.retries or now + pause_s >= deadline:
            raise _given_up(question, fault.error, doubted=doubted)
        now = (yield Pause(pause_s)).now


def run(asking: Asking[T], transport: Transport, *, sleep: Callable[[float], object] = time.sleep) -> T:
    try:
        step = next(asking)
        while True:
            outcome = None
            if isinstance(step, Request):
                outcome = transport.send(step)
            elif step.seconds:
                sleep(step.seconds)
            step = asking.send(Heard(time.monotonic(), chance.draw(), outcome))
    except StopIteration as end:
        return end.value


async def run_async(asking: Asking[T], transport: AsyncTransport) -> T:
    try:
        step = next(asking)
        while True:
            outcome = None
            if isinstance(step, Request):
                outcome = await transport.send(step)
            elif step.seconds:
                await asyncio.sleep(step.seconds)
            step = asking.send(Heard(time.monotonic(), chance.draw(), outcome))
    except StopIteration as end:
        return end.value


def fault_of(outcome: Outcome | None, what: str, address: str) -> Fault:
    match outcome:
        case Answer():
            return read_fault(outcome, what)
        case NotSent(why):
            return Fault(Unreachable(address, why), again=True)
        case AnswerLost(why):
            return Fault(OutcomeUnknown(what, f"{address} gave no whole answer: {why}"), again=True)
        case None:
            raise AssertionError("a request was answered with nothing")


def _given_up(question: Question, last: LakelogError, *, doubted: bool) -> LakelogError:
    """Error after the last attempt. A GET changes nothing, so its outcome is never unknown."""
    if question.request.method == "GET":
        return (
            NotAvailable(f"{question.what}: {last.why}", said=last.said) if isinstance(last, OutcomeUnknown) else last
        )
    if doubted and isinstance(last, NotAvailable):
        return OutcomeUnknown(question.what, last, said=last.said)
    return last
