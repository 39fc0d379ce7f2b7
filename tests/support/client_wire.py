"""A transport that a test speaks for: each request waits until it is answered, by a script or by hand.

    wire = Wire()
    with Producer(SETTINGS, transport=wire) as producer:
        future = producer.send("t", b"x")
        wire.take().answer_stored()

The same for tasks: `AsyncWire`.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from lakelog.transport.exchange import Answer, AnswerLost, NotSent, Outcome, Request

DEADLINE_S = 40.0
SETTINGS: dict[str, object] = {"bootstrap.servers": "wire:1", "retry.backoff.ms": 1, "retry.backoff.max.ms": 5}


class Asked:
    """One request, and how it ends."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.future: Future[Outcome] = Future()

    @property
    def records(self) -> list[dict[str, Any]]:
        return json.loads(self.request.body)["records"]

    @property
    def sequence(self) -> int:
        return int(self.request.headers["Producer-Seq"])

    def end(self, outcome: Outcome) -> None:
        """Nobody may be there to hear it."""
        if not self.future.done():
            self.future.set_result(outcome)

    def answer(self, status: int, body: Any = None, **headers: str) -> None:
        self.end(Answer(status, headers, json.dumps(body).encode()))

    def answer_stored(self, base: int = 0, partition: int = 0) -> None:
        self.end(stored(self.request, base, partition))

    def lose(self) -> None:
        self.end(AnswerLost("cut"))


class Wire:
    """`act` answers at once what it can; what it answers with None waits to be taken."""

    def __init__(self, act: Callable[[Request], Outcome | None] = lambda _: None) -> None:
        self.act = act
        self.requests: list[Request] = []
        self.closed = threading.Event()
        self._asked: queue.Queue[Asked] = queue.Queue()
        self._all: list[Asked] = []

    def send(self, request: Request) -> Outcome:
        assert not self.closed.is_set(), "a request after the end"
        self.requests.append(request)
        outcome = self.act(request)
        if outcome is not None:
            return outcome
        asked = Asked(request)
        self._all.append(asked)
        self._asked.put(asked)
        return asked.future.result(DEADLINE_S)

    def close(self) -> None:
        self.closed.set()

    def take(self) -> Asked:
        return self._asked.get(timeout=DEADLINE_S)

    def release(self) -> None:
        """Let go whoever still waits here."""
        for asked in self._all:
            asked.lose()


class AsyncWire:
    """The same for tasks."""

    def __init__(self, act: Callable[[Request], Outcome | None] = lambda _: None) -> None:
        self.act = act
        self.requests: list[Request] = []
        self.closed = False
        self._asked: asyncio.Queue[Asked] = asyncio.Queue()

    async def send(self, request: Request) -> Outcome:
        assert not self.closed, "a request after the end"
        self.requests.append(request)
        outcome = self.act(request)
        if outcome is not None:
            return outcome
        asked = Asked(request)
        self._asked.put_nowait(asked)
        return await asyncio.wrap_future(asked.future)

    async def close(self) -> None:
        self.closed = True

    async def take(self) -> Asked:
        return await asyncio.wait_for(self._asked.get(), DEADLINE_S)


def stored(request: Request, base: int = 0, partition: int = 0) -> Answer:
    count = len(json.loads(request.body)["records"])
    places = [{"partition": partition, "offset": base + index} for index in range(count)]
    return Answer(200, {}, json.dumps({"offsets": places}).encode())


def store_all() -> Callable[[Request], Outcome | None]:
    """Every record, one behind the other."""
    numbers = iter(range(1 << 30))
    lock = threading.Lock()

    def act(request: Request) -> Outcome:
        with lock:
            answer = stored(request, next(numbers))
            for _ in range(len(json.loads(request.body)["records"]) - 1):
                next(numbers)
        return answer

    return act


UNREACHABLE = NotSent("connection refused")
