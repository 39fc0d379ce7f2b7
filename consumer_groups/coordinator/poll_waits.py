"""Waiting polls: woken by an append, a change of the member's partitions, their deadline, or a client's disconnect.

Each poll is a task of the loop; nothing is checked on a timer. It knows the order of a poll's decisions; it must not
know what they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

from consumer_groups.coordinator.durable_state import DurableGroups
from consumer_groups.coordinator.min_bytes import Gathering
from consumer_groups.coordinator.read_records import Lender, look_up, read_in_turn
from consumer_groups.decisions.decision_weight import has_much, lapsed_from_much
from consumer_groups.decisions.last_attempt import PoisonRecord, Read
from consumer_groups.decisions.polling import (
    Fetch,
    FetchPlan,
    Poll,
    decide_answer_lost,
    decide_delivery,
    decide_fetch,
    decide_idle,
    decide_poll,
)
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster, Offsets
from consumer_groups.state.decision import Decision
from consumer_groups.state.state import Group
from delta_log import Fetched, LakelogError, Log
from delta_log.model.errors import Closed, UnknownPartition, UnknownTopic

T = TypeVar("T")
#: Pause after the partitions to read have moved: the new assignment is known soon.
_MOVING_S: Final = 0.02
#: Partitions registered before the loop yields to other tasks.
_AT_ONCE: Final = 250


@dataclass(frozen=True, slots=True)
class Polled:
    """Records by partition, in turn; none at the deadline. `answer` is the number a client reports as `received`.

    `last_try`: the one record is a last try; without records, one comes next, once the client has nothing in hand.
    """

    records: tuple[Fetched, ...]
    answer: int
    generation: int
    last_try: bool = False


class End(Protocol):
    """Something that ends a wait: a future or the like."""

    def done(self) -> bool: ...
    def add_done_callback(self, fn: Callable[[Any], object], /) -> None: ...
    def remove_done_callback(self, fn: Callable[[Any], object], /) -> object: ...


class Wake:
    """Wake-up of one waiting poll, with its deadline; `ring` may be called by any thread."""

    def __init__(self, until_s: float) -> None:
        self.until_s = until_s
        self.event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def ring(self, _end: object = None) -> None:
        with suppress(RuntimeError):  # the loop is closed: no poll waits any more
            self._loop.call_soon_threadsafe(self.event.set)


@dataclass(frozen=True, slots=True)
class Wait:
    """Conditions that end a poll's wait. Times are of the loop's clock, so that setting the wall clock moves none.

    Until `enough_s` it waits for `fetch.min.bytes`, then until `until_s` for any record. The poll of a client that
    keeps `revoking` partitions ends when more are revoked.
    """

    wake: Wake
    ends: tuple[End, ...]
    until_s: float
    enough_s: float
    gathering: Gathering
    revoking: frozenset[TopicPartition]
    answer: int


class Polls:
    """Polls of a process. `cluster` returns the current topics."""

    def __init__(
        self,
        durable: DurableGroups,
        log: Log,
        offsets: Offsets,
        cluster: Callable[[], Cluster],
        clock_ms: Callable[[], int],
        threads: Executor,
        give_up: Callable[[str, str, tuple[PoisonRecord, ...]], Awaitable[frozenset[TopicPartition]]],
    ) -> None:
        self._durable = durable
        self._log = log
        self._offsets = offsets
        self._cluster = cluster
        self._clock_ms = clock_ms
        self._threads = threads
        self._give_up = give_up
        self._waiting: dict[tuple[str, str], set[Wake]] = {}
        self._closing = False

    async def poll(self, group: str, command: Poll, room: Lender, ends: Iterable[End] = ()) -> Polled:
        """Return records once there are enough; none at the command's deadline, or when one of `ends` is done.

        If records are returned, `room` stays taken.
        """
        began_s, until_s, member_id = asyncio.get_running_loop().time(), self._until_s(command), command.member_id
        decision = await self._durable.do(
            group,
            lambda known: decide_poll(known, command, self._cluster(), self._clock_ms()),
            member_id=member_id,
            large=lambda known: has_much(known, member_id) or lapsed_from_much(known, member_id, self._cluster()),
        )
        key, wake, several, options = (group, member_id), Wake(until_s), tuple(ends), decision.reply.options
        enough_s, gathering = (
            began_s + options.fetch_max_wait_ms / 1000,
            Gathering(options.fetch_min_bytes),
        )
        revoking = self._revoking(group, member_id)
        wait = Wait(wake, several, until_s, enough_s, gathering, revoking, decision.reply.answer)
        self._waiting.setdefault(key, set()).add(wake)
        for end in several:
            end.add_done_callback(wake.ring)
        try:
            return await self._until_read(group, command, room, wait)
        except BaseException:
            self._end(group, member_id, wait, None)
            raise
        finally:
            for end in several:
                end.remove_done_callback(wake.ring)
            self._waiting[key].discard(wake)
            if not self._waiting[key]:
                del self._waiting[key]

    def lose(self, group: str, member_id: str, answer: int) -> None:
        """Take back an answer that did not arrive: its records are delivered again."""

        def take_back() -> None:
            with suppress(LakelogError):
                self._durable.note(decide_answer_lost(self._durable.groups.get(group), member_id, answer))

        self._durable.when_free(group, take_back)

    def wake(self, group: str, member_ids: Iterable[str]) -> None:
        """Wake waiting polls of members whose partitions change."""
        for member_id in member_ids:
            for wake in self._waiting.get((group, member_id), ()):
                wake.event.set()

    def wake_all(self) -> None:
        for waiting in self._waiting.values():
            for wake in waiting:
                wake.event.set()

    def overdue(self) -> list[tuple[str, str]]:
        """Members whose polls are past their deadline and not answered: the delay is the server's."""
        now_s = asyncio.get_running_loop().time()
        return [key for key, waiting in self._waiting.items() if any(wake.until_s < now_s for wake in waiting)]

    def close(self) -> None:
        """End all polls as at their deadline."""
        self._closing = True
        self.wake_all()

    async def _until_read(self, group: str, command: Poll, room: Lender, wait: Wait) -> Polled:
        member_id = command.member_id
        while True:
            wait.wake.event.clear()
            try:
                plan = await self._plan(group, command)
            except Closed:
                if self._closing:
                    return self._end(group, member_id, wait, self._clock_ms())
                raise
            now_s = asyncio.get_running_loop().time()
            gone = any(end.done() for end in wait.ends)
            asked = command.keeps and not self._revoking(group, member_id) <= wait.revoking
            overtaken = self._last_answer(group, member_id) != wait.answer
            over = gone or asked or overtaken or self._closing or now_s >= wait.until_s
            if plan.last_try and not plan.reads and not overtaken:
                return replace(self._end(group, member_id, wait, self._clock_ms()), last_try=True)
            if not plan.reads or overtaken:
                pause_s, waits = wait.until_s - now_s, plan.waits
            elif over or now_s >= wait.enough_s or await self._is_enough(plan, room, wait.gathering):
                polled = await self._read(group, member_id, plan, room, wait.answer)
                if polled is not None:
                    return polled
                pause_s, waits = _MOVING_S, ()
            else:
                pause_s, waits = min(wait.enough_s, wait.until_s) - now_s, (*plan.waits, *wait.gathering.waits())
            if over:
                return self._end(group, member_id, wait, None if gone else self._clock_ms())
            await self._sleep(wait.wake, waits, pause_s)

    async def _plan(self, group: str, asked: Poll) -> FetchPlan:
        """Plan reads, after one lookup of timestamps, and after giving up spoiled records.

        A partition whose spoiled record cannot be given up now is not read.
        """
        command = Fetch(asked.member_id, asked.paused)
        plan = await self._fetch(group, command)
        if plan.lookups:
            lookups = plan.lookups
            found = await self._run(lambda: look_up(self._log, lookups))
            command = Fetch(asked.member_id, asked.paused, found)
            plan = await self._fetch(group, command)
        while plan.spoiled:
            waits = await self._give_up(group, asked.member_id, plan.spoiled)
            command = replace(command, paused=command.paused | waits)
            plan = await self._fetch(group, command)
        return plan

    async def _fetch(self, group: str, command: Fetch) -> FetchPlan:
        decision = await self._durable.do(
            group,
            lambda known: self._decide_fetch(known, command),
            large=lambda known: has_much(known, command.member_id),
        )
        return decision.reply

    async def _is_enough(self, plan: FetchPlan, room: Lender, gathering: Gathering) -> bool:
        if gathering.wants_any:
            return True
        allowed = room.take()
        try:
            return await self._run(lambda: gathering.count(self._log, plan.reads, allowed))
        finally:
            room.end()

    def _decide_fetch(self, group: Group, command: Fetch) -> Decision[FetchPlan]:
        return decide_fetch(group, command, self._cluster(), self._offsets, self._clock_ms())

    async def _read(self, group: str, member_id: str, plan: FetchPlan, room: Lender, since: int) -> Polled | None:
        """Read and deliver; None if nothing read may be delivered, as its partition moved meanwhile, or went away.

        Delivery builds on state that was durable before the read, so it waits for nothing decided later.
        """
        allowed = room.take()
        pieces = await self._run(lambda: read_in_turn(self._log, plan.reads, allowed))
        taken = tuple(piece.taken for piece in pieces)
        known = await self._durable.free(group)
        decision = decide_delivery(known, member_id, taken, self._cluster(), self._clock_ms(), since)
        self._durable.note(decision)
        accepted = decision.reply.accepted
        if not accepted:
            room.end()
            return None
        there = {taken.read.partition for taken in accepted}
        given = tuple(piece.fetched for piece in pieces if piece.taken.read.partition in there)
        return Polled(given, decision.reply.answer, decision.generation, plan.last_try)

    def _revoking(self, group: str, member_id: str) -> frozenset[TopicPartition]:
        held = self._durable.groups.get(group).holdings.get(member_id)
        return frozenset() if held is None else frozenset(held.revoking)

    def _until_s(self, command: Poll) -> float:
        return asyncio.get_running_loop().time() + (command.until_ms - self._clock_ms()) / 1000

    async def _sleep(self, wake: Wake, waits: tuple[Read, ...], seconds: float) -> None:
        cancels: list[Callable[[], None]] = []
        try:
            for number, read in enumerate(waits, 1):
                with suppress(UnknownTopic, UnknownPartition):
                    cancels.append(self._log.on_records(*read.partition, read.offset, wake.ring))
                if not number % _AT_ONCE:
                    await asyncio.sleep(0)
            with suppress(TimeoutError):
                await asyncio.wait_for(wake.event.wait(), seconds)
        finally:
            self._cancel(cancels)

    def _cancel(self, cancels: list[Callable[[], None]]) -> None:
        """Cancel in portions; a wake-up that is left meanwhile only rings a poll that has ended."""
        for cancel in cancels[:_AT_ONCE]:
            cancel()
        if len(cancels) > _AT_ONCE:
            asyncio.get_running_loop().call_soon(self._cancel, cancels[_AT_ONCE:])

    def _last_answer(self, group: str, member_id: str) -> int:
        presence = self._durable.groups.get(group).presences.get(member_id)
        return 0 if presence is None else presence.answer

    def _end(self, group: str, member_id: str, wait: Wait, now_ms: int | None) -> Polled:
        """End a poll without records, also if its member is gone meanwhile.

        It has the number of the answer before it: an answer that another poll got since may not have arrived.
        """

        def end() -> None:
            with suppress(LakelogError):
                self._durable.note(decide_idle(self._durable.groups.get(group), member_id, now_ms))

        self._durable.when_free(group, end)
        known = self._durable.groups.get(group)
        return Polled((), wait.answer if member_id in known.presences else 0, known.generation)

    async def _run(self, act: Callable[[], T]) -> T:
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, act)
        except RuntimeError:
            raise Closed from None
        return await running
