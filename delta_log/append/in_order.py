"""In-order appends of idempotent producers: a request that arrives too early waits outside the commit queue.

The sequencer alone decides. A thread's request that it finds too early enters `EarlyRequests`, and is retried once a
predecessor is stored; at its deadline it is retried a last time, and that answer is final. Requests of an event loop
have a queue of their own.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from delta_log.append.async_append import AsyncAppender
from delta_log.append.early_requests import Parked
from delta_log.append.group_commit import Writer
from delta_log.append.in_order_async import AsyncInOrderQueue, LineUnit
from delta_log.model.errors import OutOfOrderSequence
from delta_log.model.types import Appended, ProducerStamp
from delta_log.records.request import Request
from delta_log.topics.topic_state import TopicState


class InOrderAppender:
    """Entry point for requests of threads and event loops. `wait_s`: longest wait for a predecessor."""

    def __init__(self, writer: Writer, loops: AsyncAppender, wait_s: float) -> None:
        self._writer = writer
        self._loops = loops
        self._wait_s = wait_s
        self._of_thread = threading.local()

    def append(self, live: TopicState, request: Request) -> Appended:
        try:
            return self._writer.append(live, request)
        except OutOfOrderSequence as early:
            refusal = early
        woken = threading.Event()
        with self._place(live, request, woken.set, refusal) as place:
            while True:
                woken.clear()
                woken.wait(place.patience(refusal))
                try:
                    return self._writer.append(live, request)
                except OutOfOrderSequence as early:
                    refusal = early

    def queue_up(self, live: TopicState, request: Request) -> asyncio.Future[Appended]:
        """Enqueue for the running loop; requests of idempotent producers go through its in-order queue."""
        if request.stamp is None:
            return self._loops.queue_up(live, request)
        return self._line_up(live, request, request.stamp).future

    async def append_async(self, live: TopicState, request: Request) -> Appended:
        if request.stamp is None:
            return await self._loops.append(live, request)
        unit = self._line_up(live, request, request.stamp)
        try:
            return await unit.future
        finally:
            unit.leave()  # its loop may be closed, and run no callback

    def _line_up(self, live: TopicState, request: Request, stamp: ProducerStamp) -> LineUnit:
        box = self._loops.mailbox()
        line: AsyncInOrderQueue | None = getattr(self._of_thread, "line", None)
        if line is None or line.box is not box:
            line = self._of_thread.line = AsyncInOrderQueue(self._writer, box, self._wait_s)
        unit = LineUnit(line, live, request, stamp)
        line.enter(unit)
        return unit

    @contextmanager
    def _place(
        self, live: TopicState, request: Request, wake: Callable[[], None], refusal: OutOfOrderSequence
    ) -> Generator[Place]:
        parking, stamp = self._writer.parking, request.stamp
        if stamp is None:
            raise refusal
        parked = Parked(live.id, stamp, wake)
        if not parking.enter(parked):
            raise refusal
        try:
            yield Place(self._writer, parked, time.monotonic() + self._wait_s)
        finally:
            parking.leave(parked)


class Place:
    """The wait of one early request, until it is answered."""

    __slots__ = ("_deadline", "_parked", "_writer")

    def __init__(self, writer: Writer, parked: Parked, deadline: float) -> None:
        self._writer = writer
        self._parked = parked
        self._deadline = deadline

    def patience(self, refusal: OutOfOrderSequence) -> float:
        """Time to wait before the next retry; raises `refusal` after the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise refusal
        return left if self._writer.parking.must_wait(self._parked) else 0.0
