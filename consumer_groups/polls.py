"""Polls that wait: woken by whoever appends, by a change of what their member owns, by their time, by their end.

Each poll is a task of the loop; nothing looks again on a timer. It knows the order of a poll's decisions; it must not
know what they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from consumer_groups.cluster import Cluster, Offsets
from consumer_groups.decision import Decision
from consumer_groups.durable import DurableGroups
from consumer_groups.polling import (
    Fetch,
    FetchPlan,
    Poll,
    Read,
    decide_answer_lost,
    decide_delivery,
    decide_fetch,
    decide_idle,
    decide_poll,
)
from consumer_groups.reading import Room, look_up, read_in_turn
from consumer_groups.state import Group
from delta_log import Fetched, LakelogError, Log
from delta_log.errors import Closed, UnknownPartition, UnknownTopic

T = TypeVar("T")
#: What was to be read went away: it is known soon where it went.
_MOVING_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Polled:
    """Records by partition, in turn; none when the time was over. `answer` is what a client says it `received`."""

    records: tuple[Fetched, ...]
    answer: int
    generation: int


class End(Protocol):
    """Something that ends a wait: a future, or what can stand for one."""

    def done(self) -> bool: ...
    def add_done_callback(self, fn: Callable[[Any], object], /) -> None: ...
    def remove_done_callback(self, fn: Callable[[Any], object], /) -> object: ...


class Wake:
    """Of one waiting poll; `ring` may be called by any thread."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def ring(self, _end: object = None) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits there any more
            self._loop.call_soon_threadsafe(self.event.set)


class Polls:
    """All polls of a process. `cluster` is the topics as they are when it is asked."""

    def __init__(
        self,
        durable: DurableGroups,
        log: Log,
        offsets: Offsets,
        cluster: Callable[[], Cluster],
        clock_ms: Callable[[], int],
        threads: Executor,
    ) -> None:
        self._durable = durable
        self._log = log
        self._offsets = offsets
        self._cluster = cluster
        self._clock_ms = clock_ms
        self._threads = threads
        self._waiting: dict[tuple[str, str], set[Wake]] = {}
        self._closing = False

    async def poll(self, group: str, command: Poll, room: Room, ends: Iterable[End] = ()) -> Polled:
        """Records, as soon as there are any; none at the command's time, or when one of `ends` is done."""
        member_id = command.member_id
        await self._durable.do(
            group,
            lambda known: decide_poll(known, command, self._cluster(), self._clock_ms()),
            member_id=member_id,
        )
        key, wake, several = (group, member_id), Wake(), tuple(ends)
        self._waiting.setdefault(key, set()).add(wake)
        for end in several:
            end.add_done_callback(wake.ring)
        try:
            return await self._until_read(group, command, room, wake, several)
        except BaseException:
            self._end(group, member_id, None)
            raise
        finally:
            for end in several:
                end.remove_done_callback(wake.ring)
            self._waiting[key].discard(wake)
            if not self._waiting[key]:
                del self._waiting[key]

    def lose(self, group: str, member_id: str, answer: int) -> None:
        """An answer did not arrive: what was in it is given again."""
        with suppress(LakelogError):
            self._durable.note(decide_answer_lost(self._durable.groups.get(group), member_id, answer))

    def wake(self, group: str, member_ids: Iterable[str]) -> None:
        """What they own changes: who waits looks again."""
        for member_id in member_ids:
            for wake in self._waiting.get((group, member_id), ()):
                wake.event.set()

    def wake_all(self) -> None:
        for waiting in self._waiting.values():
            for wake in waiting:
                wake.event.set()

    def close(self) -> None:
        """All end as if their time was over."""
        self._closing = True
        self.wake_all()

    async def _until_read(self, group: str, command: Poll, room: Room, wake: Wake, ends: tuple[End, ...]) -> Polled:
        member_id = command.member_id
        while True:
            wake.event.clear()
            plan = await self._plan(group, member_id)
            if plan.reads:
                polled = await self._read(group, member_id, plan, room)
                if polled is not None:
                    return polled
            gone = any(end.done() for end in ends)
            now_ms = self._clock_ms()
            if gone or self._closing or now_ms >= command.until_ms:
                return self._end(group, member_id, None if gone else now_ms)
            if plan.reads:
                await asyncio.sleep(_MOVING_S)
            else:
                await self._sleep(wake, plan.waits, (command.until_ms - now_ms) / 1000)

    async def _plan(self, group: str, member_id: str) -> FetchPlan:
        """Where to read; times are looked up first, once."""
        command = Fetch(member_id)
        decision = await self._durable.do(group, lambda known: self._decide_fetch(known, command))
        if decision.reply.lookups:
            found = await self._run(lambda: look_up(self._log, decision.reply.lookups))
            command = Fetch(member_id, found=found)
            decision = await self._durable.do(group, lambda known: self._decide_fetch(known, command))
        return decision.reply

    def _decide_fetch(self, group: Group, command: Fetch) -> Decision[FetchPlan]:
        return decide_fetch(group, command, self._cluster(), self._offsets, self._clock_ms())

    async def _read(self, group: str, member_id: str, plan: FetchPlan, room: Room) -> Polled | None:
        """None if nothing that was read may be given: it moved meanwhile, or went away.

        What is given rests on what was durable before it was read, so it waits for nothing that came later.
        """
        pieces = await self._run(lambda: read_in_turn(self._log, plan.reads, room))
        taken = tuple(piece.taken for piece in pieces)
        known = self._durable.groups.get(group)
        decision = decide_delivery(known, member_id, taken, self._cluster(), self._clock_ms())
        self._durable.note(decision)
        accepted = decision.reply.accepted
        if not accepted:
            return None
        given = tuple(piece.fetched for piece in pieces if piece.taken in accepted)
        return Polled(given, decision.reply.answer, decision.generation)

    async def _sleep(self, wake: Wake, waits: tuple[Read, ...], seconds: float) -> None:
        cancels: list[Callable[[], None]] = []
        try:
            for read in waits:
                with suppress(UnknownTopic, UnknownPartition):
                    cancels.append(self._log.on_records(*read.partition, read.offset, wake.ring))
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.event.wait(), seconds)
        finally:
            for cancel in cancels:
                cancel()

    def _end(self, group: str, member_id: str, now_ms: int | None) -> Polled:
        """Without records; also of a member that is gone meanwhile."""
        known = self._durable.groups.get(group)
        with suppress(LakelogError):
            self._durable.note(decide_idle(known, member_id, now_ms))
        presence = known.presences.get(member_id)
        return Polled((), 0 if presence is None else presence.answer, known.generation)

    async def _run(self, act: Callable[[], T]) -> T:
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, act)
        except RuntimeError:
            raise Closed from None
        return await running
