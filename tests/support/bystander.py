"""Who behaves while others do not, and whether it was served in time: without what the machine itself took of it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import httpx

from tests.support.figures import threads_of, work_of_others
from tests.support.http_producers import frame, join_all, run_all
from tests.support.raw_http import Cut, RawClient
from tests.support.serving import Server, wait_for

MOST_DELAY_S = 1.0
LINES = {"Content-Type": "application/x-ndjson"}
#: Whoever waits for so long is awake soon after, or the machine was busy with others, or stood still.
BEAT_S = 0.02


@dataclass
class Bystander:
    """Somebody who behaves while others do not: asks how the server is and produces, and notes how long that takes.

    What was not the server's doing is left out: `held_up_s` is by how much waits of ours took longer than they were to
    take; and of each answer, for how long the server waited for a processor, as far as others worked then. What one of
    its threads worked meanwhile is its doing in any case.
    """

    server: Server
    held_up_s: float = 0.0
    delays: dict[str, list[float]] = field(default_factory=lambda: {"health": [], "produce": []})
    faults: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        create(self.server, "bystander")
        self._stopped = threading.Event()
        self._threads = run_all(
            (
                partial(self._repeat, "health", frame("GET", "/healthz")),
                partial(self._repeat, "produce", frame("POST", "/topics/bystander", LINES, b"1")),
                self._feel_the_pulse,
            )
        )
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                wait_for(lambda: self.faults or min(map(len, self.delays.values())) > 5, "a few answers")
        finally:
            self._stopped.set()
            join_all(self._threads)

    def check(self, *, most: float = MOST_DELAY_S) -> None:
        assert not self.faults, self.faults[0]
        assert max(self.delays["health"]) < most + self.held_up_s
        assert max(self.delays["produce"]) < 10 * most + self.held_up_s

    def _since(self, before: dict[int, tuple[float, float]]) -> tuple[float, float]:
        """What the busiest thread worked; and how long the one that answers waited, and one that keeps it waiting."""
        worked, waited = 0.0, dict[int, float]()
        for thread, now in threads_of(self.server).items():
            then = before.get(thread, (0.0, 0.0))
            worked, waited[thread] = max(worked, now[0] - then[0]), now[1] - then[1]
        return worked, waited.pop(self.server.pid, 0.0) + max(waited.values(), default=0.0)

    def _feel_the_pulse(self) -> None:
        before = time.monotonic()
        while not self._stopped.wait(BEAT_S):
            now = time.monotonic()
            late_s, before = now - before - BEAT_S, now
            self.held_up_s += late_s if late_s > 5 * BEAT_S else 0.0

    def _repeat(self, kind: str, request: bytes) -> None:
        try:
            with RawClient(self.server.port) as client:
                while not self._stopped.wait(0.02):
                    threads, others, began = threads_of(self.server), work_of_others(self.server), time.monotonic()
                    answer = client.ask(request)
                    took = time.monotonic() - began
                    worked, waited = self._since(threads)
                    taken_s = min(waited, work_of_others(self.server) - others)
                    self.delays[kind].append(max(worked, took - max(0.0, taken_s)))
                    if answer.status != 200:
                        self.faults.append(f"{kind} was answered {answer}")
        except (OSError, Cut) as error:
            self.faults.append(f"{kind}: {error!r}")


def create(server: Server, topic: str) -> None:
    assert httpx.put(f"{server.url}/topics/{topic}", json={"partitions": 1}, timeout=30).status_code == 201
