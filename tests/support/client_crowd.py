"""Callers of a producer that send numbered values, and tell a ledger what they were told of each.

Every value is a JSON string of its caller and number, so that each is sent once.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from lakelog import AsyncProducer, LakelogError, Producer, RecordMetadata
from tests.support.http_ledger import HttpLedger, Place, Sent

KEYS = (b"a", b"b", b"c", b"d", b"e", None)
DEADLINE_S = 100.0
Told = list[tuple[Sent, Any]]


class Crowd:
    """So many callers of one producer, each with `count` records; `goes_on` says whether to send the next one."""

    def __init__(self, ledger: HttpLedger, topic: str, callers: int = 3) -> None:
        self.ledger = ledger
        self.topic = topic
        self.callers = callers
        self.outcomes: list[RecordMetadata | LakelogError] = []
        self.sent = 0
        self._lives = itertools.count()

    def live(self, settings: Mapping[str, object], kind: str, goes_on: Callable[[int], bool]) -> None:
        """The life of one producer, from its first record to its close."""
        life = next(self._lives)
        if kind == "threads":
            told = self._in_threads(settings, life, goes_on)
        else:
            told = asyncio.run(self._in_tasks(settings, life, goes_on))
        for sent, outcome in told:
            self._tell(sent, outcome)

    def start(self, settings: Mapping[str, object], kind: str, goes_on: Callable[[int], bool]) -> threading.Thread:
        thread = threading.Thread(target=self.live, args=(settings, kind, goes_on), daemon=True)
        thread.start()
        return thread

    def _in_threads(self, settings: Mapping[str, object], life: int, goes_on: Callable[[int], bool]) -> Told:
        futures: list[tuple[Sent, Any]] = []

        def send(producer: Producer, by: str) -> None:
            for number in itertools.takewhile(goes_on, itertools.count()):
                sent, value, key = self._next(by, number)
                futures.append((sent, producer.send(self.topic, value, key=key)))

        with Producer(settings) as producer:
            threads = [
                threading.Thread(target=send, args=(producer, f"{life}.{caller}")) for caller in range(self.callers)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE_S)
        assert all(future.done() for _, future in futures), "a future is not resolved after the close"
        return [(sent, future.exception(0) or future.result(0)) for sent, future in futures]

    async def _in_tasks(self, settings: Mapping[str, object], life: int, goes_on: Callable[[int], bool]) -> Told:
        futures: list[tuple[Sent, Any]] = []

        async def send(producer: AsyncProducer, by: str) -> None:
            for number in itertools.takewhile(goes_on, itertools.count()):
                sent, value, key = self._next(by, number)
                futures.append((sent, await producer.send(self.topic, value, key=key)))
                await asyncio.sleep(0)

        async with AsyncProducer(settings) as producer, asyncio.TaskGroup() as group:
            for caller in range(self.callers):
                group.create_task(send(producer, f"{life}.{caller}"))
        assert all(future.done() for _, future in futures), "a future is not resolved after the close"
        return [(sent, future.exception() or future.result()) for sent, future in futures]

    def _next(self, by: str, number: int) -> tuple[Sent, bytes, bytes | None]:
        value = b'"%b.%d"' % (by.encode(), number)
        self.sent += 1
        return self.ledger.sending(by, self.topic, [value]), value, KEYS[number % len(KEYS)]

    def _tell(self, sent: Sent, outcome: RecordMetadata | LakelogError) -> None:
        self.outcomes.append(outcome)
        if isinstance(outcome, LakelogError):
            if outcome.outcome == "not_attempted":
                self.ledger.refused(sent)
        elif outcome.offset is None or outcome.partition is None:
            self.ledger.accepted(sent)
        else:
            self.ledger.answered(sent, [Place(outcome.partition, outcome.offset)])
