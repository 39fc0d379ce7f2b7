"""What the tests of produce requests share: what an answer looks like, what is stored, and a writer that is held."""

from __future__ import annotations

import threading
from typing import Any

from tests.support.http_app import HttpApp

V2 = "application/vnd.kafka.v2+json"
ONE = {"records": [{"value": 1}]}
DEADLINE_S = 120.0
NULLS = {"key_schema_id": None, "value_schema_id": None}


def place(partition: int | None, offset: int | None) -> dict[str, Any]:
    return {"partition": partition, "offset": offset, "error_code": None, "error": None}


def stored(app: HttpApp, topic: str = "orders") -> int:
    """How many records a topic was ever given."""
    partitions = range(app.log.describe_topic(topic).partitions)
    return sum(app.log.offsets(topic, partition).end_offset for partition in partitions)


class HeldWriter:
    """While it lasts nothing is written: somebody else has the turn."""

    def __init__(self, app: HttpApp) -> None:
        self._go, self._in = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: app.log._running.writer.alone(self._hold))

    def _hold(self) -> None:
        self._in.set()
        self._go.wait(DEADLINE_S)

    def __enter__(self) -> None:
        self._thread.start()
        assert self._in.wait(DEADLINE_S)

    def __exit__(self, *_: object) -> None:
        self._go.set()
        self._thread.join()
