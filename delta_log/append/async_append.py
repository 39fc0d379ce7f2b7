"""The one async border: appending from an event loop.

An event loop only enqueues and receives results; a thread of the writer sequences, writes and answers its groups. So
a loop that is cancelled, closed or blocked loses neither its own records nor the lead.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from typing import Any

from delta_log.append.append_unit import LedgerRequest
from delta_log.append.commit_queue import Unit
from delta_log.append.group_commit import Writer
from delta_log.model.types import Appended
from delta_log.records.request import Request
from delta_log.topics.topic_state import TopicState


class AsyncAppender:
    """Entry point for event loops."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._of_thread = threading.local()

    async def append(self, live: TopicState, request: Request) -> Appended:
        return await self.queue_up(live, request)

    def queue_up(self, live: TopicState, request: Request) -> asyncio.Future[Appended]:
        unit = AppendTicket(self._writer, live, request, self.mailbox())
        self.enter(unit)
        return unit.future

    def enter(self, unit: AppendTicket) -> None:
        """Enqueue the unit; callable from any thread."""
        if self._writer.turns.enter(unit):
            unit.lead()

    def mailbox(self) -> LoopReplies:
        """Returns the replies object of the running loop, created on first use."""
        loop = asyncio.get_running_loop()
        box: LoopReplies | None = getattr(self._of_thread, "box", None)
        if box is None or box.loop is not loop:
            box = self._of_thread.box = LoopReplies(loop)
        return box


class LoopReplies:
    """Answers to be delivered to one loop. It is woken once per group, because each wake-up releases the GIL."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._units: deque[AppendTicket] = deque()
        self._called = False

    def put(self, unit: AppendTicket) -> None:
        self._units.append(unit)

    def deliver(self) -> None:
        if not self._called:
            self._called = True
            with suppress(RuntimeError):  # the loop is closed: no task waits there any more
                self.loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        self._called = False
        while self._units:
            self._units.popleft().settle()


class AppendTicket(Unit):
    """A queued request that an asyncio task awaits."""

    __slots__ = ("box", "future", "writer")

    def __init__(
        self, writer: Writer, live: TopicState | None, request: Request | LedgerRequest, box: LoopReplies
    ) -> None:
        super().__init__(live, request)
        self.writer = writer
        self.box = box
        self.future: asyncio.Future[Any] = box.loop.create_future()

    def lead(self) -> None:
        try:
            self.writer.syncing.submit(self.writer.lead_once)
        except RuntimeError:  # the writer was closed: only report it
            self.writer.lead_once()

    def done(self) -> None:
        self.box.put(self)

    def deliver(self) -> None:
        self.box.deliver()

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        elif self.result is not None:
            self.future.set_result(self.result)


class LedgerUnit(AppendTicket):
    """A queued `LedgerRequest` that a task awaits; later units may already depend on its rows."""

    __slots__ = ()

    def __init__(self, writer: Writer, request: LedgerRequest, box: LoopReplies) -> None:
        super().__init__(writer, None, request, box)

    def done(self) -> None:
        if self.error is not None and isinstance(self.request, LedgerRequest):
            self.request.break_line(self.error)
        super().done()

    def settle(self) -> None:
        stored = self.error is None and self.result is not None
        if stored and not self.future.done() and isinstance(self.request, LedgerRequest):
            self.future.set_result(self.request.answers)
        else:
            super().settle()
