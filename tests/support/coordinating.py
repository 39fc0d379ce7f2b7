"""Coordinators for tests: over a log that lives several lives, with members in one call."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.coordinator.poll_waits import Polled
from consumer_groups.coordinator.read_records import Room
from consumer_groups.decisions.membership import Join
from consumer_groups.decisions.polling import Poll
from consumer_groups.decisions.subscription import Subscribe
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.options import parse_options
from delta_log import Log, Record
from delta_log.runtime.clock import wall_clock_ms
from tests.support.logs import DEADLINE_S

ROOM = Room(1000, 1 << 20)
#: Before the end of any poll that waits for a minute: who is not woken by then is not woken at all.
SOON_S = 40.0
Given = dict[TopicPartition, list[bytes | None]]


class HeldJournal:
    """While it lasts no write of the journal ends."""

    def __init__(self, log: Log) -> None:
        self._journal = log._running.journal
        self._go_on = threading.Event()

    def __enter__(self) -> None:
        real = self._real = self._journal.append

        def hang(*given: Any) -> Any:
            self._go_on.wait(60)
            return real(*given)

        self._journal.append = hang  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        self._journal.append = self._real  # type: ignore[method-assign]
        self._go_on.set()


@asynccontextmanager
async def coordinating(log: Log, *, custom_assignors: Collection[str] = ()) -> AsyncIterator[Coordinator]:
    names = itertools.count()
    coordinator = await Coordinator.open(
        log, wall_clock_ms, lambda: f"member-{next(names)}", custom_assignors=custom_assignors
    )
    try:
        yield coordinator
    finally:
        await coordinator.close()


async def join(groups: Coordinator, member_id: str, *topics: str, group: str = "g", **options: object) -> None:
    given = {name.replace("_", "."): value for name, value in options.items()}
    await groups.join(group, Join(member_id, parse_options(given)[1]))
    if topics:
        await groups.subscribe(group, Subscribe(member_id, topics))


async def poll(
    groups: Coordinator, member_id: str, *, wait_ms: int = 0, room: Room = ROOM, group: str = "g", **more: Any
) -> Given:
    polled = await groups.poll(group, Poll(member_id, wall_clock_ms() + wait_ms, **more), room)
    return given(polled)


def given(polled: Polled) -> Given:
    return {
        TopicPartition(each.topic, each.partition): [record.value for record in each.records()]
        for each in polled.records
    }


def put(log: Log, topic: str, partition: int, *values: bytes) -> None:
    log.append(topic, [Record(value, partition=partition) for value in values])


async def waits(log: Log, doing: asyncio.Future[Any], topic: str = "t") -> None:
    """Until a poll has looked at all there is, and waits for more in each partition; or has come to its end."""
    tails = log._running.catalog.live(topic).tails

    async def waiting() -> bool:
        return doing.done() or all(tail.waiters for tail in tails)

    await comes_true(waiting, "that a poll waits")


async def comes_true(condition: Callable[[], Any], what: str = "it") -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not await condition():
        assert time.monotonic() < deadline, f"{what} did not come true"
        await asyncio.sleep(0.01)
