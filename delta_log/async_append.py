"""The one async border: appending from an event loop.

The loop gives out offsets and answers; a thread of its own writes and waits for the sync. Loop and threads may append
to the same log: whoever's turn it is leads.
"""

from __future__ import annotations

import asyncio

from delta_log.live import Live
from delta_log.request import Request
from delta_log.turns import Unit
from delta_log.types import Appended
from delta_log.writer import Writer


class LoopUnit(Unit):
    """Of a task that awaits it."""

    __slots__ = ("future", "loop", "writer")

    def __init__(self, writer: Writer, live: Live, request: Request) -> None:
        super().__init__(live, request)
        self.writer = writer
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Appended] = self.loop.create_future()

    def lead(self) -> None:
        self.loop.call_soon_threadsafe(self.begin_leading)

    def done(self) -> None:
        try:
            on_loop = asyncio.get_running_loop() is self.loop
        except RuntimeError:
            on_loop = False
        if on_loop:
            self.settle()
        else:
            self.loop.call_soon_threadsafe(self.settle)

    def begin_leading(self) -> None:
        self.loop.create_task(_lead(self.writer))

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        elif self.result is not None:
            self.future.set_result(self.result)


async def append_on_loop(writer: Writer, live: Live, request: Request) -> Appended:
    unit = LoopUnit(writer, live, request)
    if writer.turns.enter(unit):
        unit.begin_leading()
    return await unit.future


async def _lead(writer: Writer) -> None:
    """One group: offsets on the loop, the sync in a thread, the answers on the loop."""
    try:
        group = writer.begin()
        if not group.frames:
            writer.finish(group, [])
            return
        loop = asyncio.get_running_loop()
        try:
            places = await loop.run_in_executor(writer.syncing, writer.journal.append, group.frames, group.payloads)
        except BaseException as error:  # noqa: BLE001 - every unit of the group must be told
            writer.fail(group, error)
            return
        writer.finish(group, places)
    finally:
        writer.turns.hand_over()
