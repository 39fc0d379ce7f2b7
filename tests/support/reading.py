"""What the tests of reads share: records to read, what was read, and whether anything is left of who waited."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from delta_log import Log, Record
from tests.support.asgi_call import soon
from tests.support.http_app import HttpApp
from tests.support.logs import NOW

RECORDS = "/topics/orders/partitions/0/records"


def fill(app: HttpApp, count: int, *, size: int = 1, start: int = 0) -> None:
    app.log.append(
        "orders",
        [Record(b'"%d"' % n + b" " * size, partition=0, timestamp=NOW + n) for n in range(start, start + count)],
    )


def offsets(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line)["offset"] for line in answer.text.splitlines()]


class Reads:
    """How often the log was read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for name in ("read", "begin_read"):
            self._count(monkeypatch, name)

    def _count(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        whole = getattr(Log, name)

        def read(log: Log, *given: Any, **more: Any) -> Any:
            self.count += 1
            return whole(log, *given, **more)

        monkeypatch.setattr(Log, name, read)


def waiters(app: HttpApp, topic: str = "orders") -> int:
    return sum(len(tail.waiters) for tail in app.log._running.catalog.live(topic).tails)


async def nothing_is_left(app: HttpApp) -> None:
    await soon(lambda: len(asyncio.all_tasks()) == 1, "the end of every task")
    assert app.tier.watch.polling.open == 0
    assert app.tier.read_room.held == 0
    if "orders" in app.log.topics():
        assert waiters(app) == 0
