"""What clients leave to chance disturbs no program that has seeded its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from lakelog import AsyncProducer, Producer
from lakelog.transport import jitter as chance
from lakelog.transport.backoff import Backoff
from lakelog.transport.exchange import Answer, NotSent, Outcome, Request
from lakelog.transport.retry import Patience, Question, ask, run, run_async
from tests.support.client_wire import DEADLINE_S, SETTINGS, AsyncWire, Wire, stored

QUESTION = Question("asking", Request("GET", "/"))
PATIENCE = Patience("http://server", 10.0, 4.0, 1_000, Backoff(0.0001, 0.001))


def refuse_twice(then: Callable[[Request], Outcome]) -> Callable[[Request], Outcome]:
    refused: list[Request] = []

    def act(request: Request) -> Outcome:
        if len(refused) < 2:
            refused.append(request)
            return NotSent("not yet")
        return then(request)

    return act


def by_a_thread() -> None:
    with Producer({**SETTINGS, "retry.backoff.ms": 1}, transport=Wire(refuse_twice(stored))) as producer:
        producer.send("t", b"v").result(DEADLINE_S)


def by_a_task() -> None:
    async def send() -> None:
        wire = AsyncWire(refuse_twice(stored))
        async with AsyncProducer({**SETTINGS, "retry.backoff.ms": 1}, transport=wire) as producer:
            await (await producer.send("t", b"v"))

    asyncio.run(send())


def by_asking() -> None:
    run(ask(QUESTION, PATIENCE), Wire(refuse_twice(lambda _: Answer(200, {}, b"{}"))))


def by_asking_in_a_task() -> None:
    asyncio.run(run_async(ask(QUESTION, PATIENCE), AsyncWire(refuse_twice(lambda _: Answer(200, {}, b"{}")))))


@pytest.mark.parametrize("act", [by_a_thread, by_a_task, by_asking, by_asking_in_a_task])
def test_a_client_that_tries_again_draws_from_nobodys_seed(act: Callable[[], None], monkeypatch: pytest.MonkeyPatch):
    drawn: list[float] = []
    draw = chance.draw
    monkeypatch.setattr(chance, "draw", lambda: drawn.append(draw()) or drawn[-1])
    before = random.getstate()
    act()
    assert random.getstate() == before
    assert drawn
    assert all(0 <= number < 1 for number in drawn)
