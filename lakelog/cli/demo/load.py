"""Load of `lakelog demo`: three producers, and a group whose second member joins later.

One member reads more slowly than records arrive, two read faster: so the lag grows, and shrinks again. The module knows
the clients, and neither the server's process nor the output.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from random import Random
from types import TracebackType
from typing import Final, Self

from lakelog import Consumer, Producer
from lakelog.cli.demo.output import GROUP, TOPIC, Counts, Look
from lakelog.cli.kit.clients import open_admin
from lakelog.foundation.errors import LakelogError, UnknownGroup

__all__ = ["Load"]

_PARTITIONS: Final = 4
#: Short retention, so that a demo that runs for days stays small.
_CONFIGS: Final = {"retention.ms": 3_600_000, "segment.ms": 600_000, "lakelog.history.ms": 600_000}
_PRODUCERS: Final = 3
_MEMBERS: Final = 2
_SECOND_MEMBER_AFTER_S: Final = 5.0
#: The most that one member reads, as a part of the rate of all producers.
_PACE: Final = 0.75
_TICK_S: Final = 0.1
_GIVE_UP_S: Final = 5.0
_SERIALIZERS: Final = {"key.serializer": "string", "value.serializer": "json"}
_DRINKS: Final = ("tea", "coffee", "milk", "mate", "cocoa")
_CUSTOMERS: Final = ("alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi")


class Load:
    """Runs within its block. When a producer or a member fails, `failed` is set, and `why` has the reason."""

    def __init__(self, server: str, rate: int) -> None:
        self._server = {"bootstrap.servers": server}
        self._rate = rate
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._produced = self._consumed = 0
        self.failed = threading.Event()
        self.why = ""
        self._admin = open_admin(server)
        works = [*((self._produce, number) for number in range(_PRODUCERS))]
        works += [(self._consume, number) for number in range(_MEMBERS)]
        self._threads = [threading.Thread(target=self._work, args=work, daemon=True) for work in works]

    @property
    def counts(self) -> Counts:
        with self._lock:
            return Counts(self._produced, self._consumed)

    def look(self) -> Look:
        try:
            found = self._admin.describe_group(GROUP)
        except UnknownGroup:
            return Look(0, 0)
        return Look(found.lag, len(found.members))

    def __enter__(self) -> Self:
        self._admin.create_topic(TOPIC, partitions=_PARTITIONS, configs=_CONFIGS)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(2 * _GIVE_UP_S)
        self._admin.close()

    def _work(self, act: Callable[[int], None], number: int) -> None:
        try:
            act(number)
        except LakelogError as error:
            if not self._stop.is_set():
                self.why = str(error)
                self.failed.set()

    def _produce(self, number: int) -> None:
        random = Random(number)  # noqa: S311 - drinks, no secrets
        producer = Producer(self._server | {"client.id": f"demo-producer-{number}", **_SERIALIZERS})
        owed, share = 0.0, self._rate / _PRODUCERS * _TICK_S
        try:
            while not self._stop.wait(_TICK_S):
                owed += share * random.uniform(0.8, 1.2)
                for _ in range(int(owed)):
                    order = {"drink": random.choice(_DRINKS), "cups": random.randint(1, 6)}
                    headers = {"shop": f"number {number}".encode()}
                    producer.send(
                        TOPIC, order, key=random.choice(_CUSTOMERS), headers=headers, on_delivery=self._on_delivery
                    )
                owed -= int(owed)
        finally:
            producer.close(_GIVE_UP_S)

    def _on_delivery(self, error: LakelogError | None, _: object) -> None:
        if error is None:
            with self._lock:
                self._produced += 1
        elif not self._stop.is_set():
            self.why = str(error)
            self.failed.set()

    def _consume(self, number: int) -> None:
        if self._stop.wait(number * _SECOND_MEMBER_AFTER_S):
            return
        settings = {
            "group.id": GROUP,
            "client.id": f"demo-member-{number}",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 250,
        }
        consumer = Consumer(self._server | settings)
        try:
            consumer.subscribe([TOPIC])
            while not self._stop.is_set():
                found = len(consumer.poll(_TICK_S, max_records=max(1, int(self._rate * _PACE * _TICK_S))))
                with self._lock:
                    self._consumed += found
                self._stop.wait(found / (self._rate * _PACE))
        finally:
            consumer.close(_GIVE_UP_S)
