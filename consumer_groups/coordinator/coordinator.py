"""The groups of a log, for one event loop: members, assignments and offsets.

    coordinator = await Coordinator.open(log, wall_clock_ms, new_id)
    await coordinator.join("billing", Join("one", options))
    await coordinator.subscribe("billing", Subscribe("one", ("orders",)))
    polled = await coordinator.poll("billing", Poll("one", until_ms), Room(500, 1 << 20))
    await coordinator.commit("billing", Commit("one"))

Each call decides by the pure modules and returns when the decision is durable. Errors are those of the decisions and
of the log; after either, the state is what is durable. It must not know HTTP. It is long, as it has every operation
on groups.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar

from consumer_groups.coordinator.dead_letter_writer import GivenUp
from consumer_groups.coordinator.durable_state import Asked, DurableGroups, Large
from consumer_groups.coordinator.group_maintenance import GroupMaintenance
from consumer_groups.coordinator.metrics import GroupSample, GroupStatistics
from consumer_groups.coordinator.poll_waits import End, Polled
from consumer_groups.coordinator.read_records import Lender
from consumer_groups.coordinator.tables import GROUPS, OFFSETS, TABLES, records_of_groups, records_of_offsets
from consumer_groups.coordinator.topic_watch import LogOffsets
from consumer_groups.decisions import admin
from consumer_groups.decisions.admin import GroupDescription, GroupSummary, Reset, Target
from consumer_groups.decisions.commits import Commit, Commitment, Seek, decide_commit, decide_seek, read_committed
from consumer_groups.decisions.dead_lettering import GiveUp
from consumer_groups.decisions.decision_weight import LARGE, has_much, is_large, reads_much
from consumer_groups.decisions.idle_groups import OFFSETS_RETENTION_MS
from consumer_groups.decisions.lag import count_partitions, take_progress
from consumer_groups.decisions.membership import (
    Beaten,
    Heartbeat,
    Join,
    Joined,
    Leave,
    decide_heartbeat,
    decide_join,
    decide_leave,
    require_member,
)
from consumer_groups.decisions.polling import Poll
from consumer_groups.decisions.subscription import (
    Assign,
    Subscribe,
    Unsubscribe,
    decide_assign,
    decide_subscribe,
    decide_unsubscribe,
    read_assignment,
    read_subscription,
)
from consumer_groups.decisions.transactional_offsets import Moved
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster
from consumer_groups.model.options import Options
from consumer_groups.model.records import OffsetRecord
from consumer_groups.state.decision import Decision, begin
from consumer_groups.state.state import Group, Groups
from delta_log import Appended, Ledger, Log, Prepared
from delta_log.keyed import Decide

_THREADS: Final = 4
_CLOSING_S: Final = 5.0
#: Groups read before the loop yields to other tasks.
_AT_ONCE: Final = 50

T = TypeVar("T")
Cmd = TypeVar("Cmd", Assign, Commit, Heartbeat, Seek, Subscribe, Unsubscribe)
Reply_co = TypeVar("Reply_co", covariant=True)
Offsets = Mapping[TopicPartition, OffsetRecord]


@dataclass(frozen=True, slots=True)
class Answer(Generic[Reply_co]):
    """A reply, with the `generation` to send to the member."""

    reply: Reply_co
    generation: int


class Coordinator:
    """Coordinator of every group of a log that this process owns."""

    def __init__(
        self,
        log: Log,
        ledger: Ledger,
        groups: Groups,
        clock_ms: Callable[[], int],
        new_id: Callable[[], str],
        threads: ThreadPoolExecutor,
        *,
        custom_assignors: Collection[str] = (),
        retention_ms: int = OFFSETS_RETENTION_MS,
    ) -> None:
        self._clock_ms = clock_ms
        self._new_id = new_id
        self._threads = threads
        self._offsets = LogOffsets(log)
        self._durable = DurableGroups(groups, ledger, clock_ms, self)
        self._tending = GroupMaintenance(
            log,
            self._durable,
            self._offsets,
            clock_ms,
            threads,
            custom_assignors=custom_assignors,
            retention_ms=retention_ms,
        )
        self._polls, self._deadlines = self._tending.polls, self._tending.deadlines

    @classmethod
    async def open(
        cls,
        log: Log,
        clock_ms: Callable[[], int],
        new_id: Callable[[], str],
        *,
        custom_assignors: Collection[str] = (),
        retention_ms: int = OFFSETS_RETENTION_MS,
    ) -> Self:
        """Load all groups as they were left; each member gets a fresh session."""
        threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="lakelog-groups")
        try:
            ledger, groups = await asyncio.get_running_loop().run_in_executor(threads, _load, log)
            begin(groups, clock_ms(), log.epoch)
            opened = cls(
                log,
                ledger,
                groups,
                clock_ms,
                new_id,
                threads,
                custom_assignors=custom_assignors,
                retention_ms=retention_ms,
            )
            await opened.topics_changed()
        except BaseException:
            threads.shutdown(wait=False)
            raise
        opened._deadlines.begin()
        return opened

    @property
    def now_ms(self) -> int:
        """Current time on the clock that `until_ms` refers to."""
        return self._clock_ms()

    # --- members

    def heard(self, group: str, member_id: str) -> None:
        """Extend a member's session: any request, whatever its outcome, shows that it lives."""
        self._durable.record_liveness(group, member_id)

    def peek(self, group: str, member_id: str) -> Options | None:
        """Options of a member, perhaps not durable yet; None if there is no such member."""
        member = self._durable.groups.get(group).members.get(member_id)
        return None if member is None else member.options

    async def check(self, group: str, member_id: str, generation: int | None = None) -> Answer[None]:
        """Refuse an unknown member or an old generation."""

        def look(known: Group) -> None:
            require_member(known, member_id, generation)

        return await self._look(group, look)

    async def join(self, group: str, command: Join) -> Answer[Joined]:
        return await self._do(
            group,
            lambda known: decide_join(known, command, self._tending.cluster, self._clock_ms()),
            large=self._is_large,
        )

    def new_member_id(self) -> str:
        """Return a new id, for a member that asks for no name."""
        return self._new_id()

    async def leave(self, group: str, command: Leave) -> Answer[None]:
        return await self._do(
            group,
            lambda known: decide_leave(known, command, self._tending.cluster, self._clock_ms()),
            large=self._is_large,
        )

    async def heartbeat(self, group: str, command: Heartbeat) -> Answer[Beaten]:
        return await self._do_for(group, command, decide_heartbeat, lambda known: has_much(known, command.member_id))

    async def subscribe(self, group: str, command: Subscribe) -> Answer[None]:
        def large(known: Group) -> bool:
            cluster = self._tending.cluster
            return reads_much(cluster, command.topics, command.pattern) or is_large(known, cluster)

        return await self._do_for(group, command, decide_subscribe, large)

    async def unsubscribe(self, group: str, command: Unsubscribe) -> Answer[None]:
        return await self._do_for(group, command, decide_unsubscribe, self._is_large)

    async def assign(self, group: str, command: Assign) -> Answer[None]:
        much = len(command.partitions) >= LARGE
        return await self._do_for(group, command, decide_assign, lambda known: much or self._is_large(known))

    async def subscription(self, group: str, member_id: str) -> Answer[tuple[str, ...]]:
        return await self._look(
            group, lambda known: read_subscription(known, member_id, self._tending.cluster), self._is_large
        )

    async def assignment(self, group: str, member_id: str) -> Answer[tuple[TopicPartition, ...]]:
        return await self._look(
            group, lambda known: read_assignment(known, member_id), lambda known: has_much(known, member_id)
        )

    # --- records and offsets

    async def poll(self, group: str, command: Poll, room: Lender, ends: Iterable[End] = ()) -> Polled:
        """Return records once there are enough; none at `until_ms`, when one of `ends` is done, or on closing.

        If records are returned, `room` stays taken.
        """
        return await self._polls.poll(group, command, room, ends)

    def answer_lost(self, group: str, member_id: str, answer: int) -> None:
        """Take an answer back whose client disconnected before it had all of it."""
        self._polls.lose(group, member_id, answer)

    async def commit(self, group: str, command: Commit) -> Answer[dict[TopicPartition, int]]:
        began = time.perf_counter()
        much = len(command.offsets or ()) >= LARGE

        def large(known: Group) -> bool:
            return much or (command.offsets is None and has_much(known, command.member_id))

        answer = await self._do_at(group, command, decide_commit, large)
        self._durable.meter.seconds.add(time.perf_counter() - began)
        return answer

    async def give_up(self, group: str, command: GiveUp) -> Answer[tuple[GivenUp, ...]]:
        """Dead-letter records and skip them, all or none. Records given up before stay as they are."""
        decision = await self._tending.letters.give_up(group, command)
        return Answer(decision.reply, decision.generation)

    async def seek(self, group: str, command: Seek) -> Answer[None]:
        much = len(command.positions) >= LARGE
        return await self._do_at(group, command, decide_seek, lambda _: much)

    async def committed(self, group: str, partitions: tuple[TopicPartition, ...]) -> Answer[Offsets]:
        much = len(partitions) >= LARGE
        return await self._look(
            group, lambda known: read_committed(known, partitions, self._tending.cluster), lambda _: much
        )

    async def check_moved(self, moved: Moved) -> Moved:
        """Return the offsets bound to the current topics; refused if they could not be committed now."""

        def look(known: Group) -> Moved:
            self._moving(moved.decide)(known)
            return moved.seen_in(self._tending.cluster)

        return (await self._look(moved.group, look)).reply

    async def commit_with(
        self, moved: Sequence[Moved], appends: Sequence[Prepared], last_word: Decide
    ) -> Sequence[Appended]:
        """Store the records and offsets of a transaction, each `Moved` of another group, all or nothing."""
        asked = [Asked(each.group, self._moving(each.decide_still), each.member_id) for each in moved]
        return (await self._durable.do_beside(asked, appends, last_word))[1]

    def _moving(
        self, decide: Callable[[Group, Cluster, LogOffsets, int], Decision[T]]
    ) -> Callable[[Group], Decision[T]]:
        return lambda known: decide(known, self._tending.cluster, self._offsets, self._clock_ms())

    # --- groups from outside

    async def list_groups(self) -> list[GroupSummary]:
        names = sorted(self._durable.groups.by_name)
        return [each async for each in self._each(names, admin.summarize_group)]

    async def statistics(self, most_groups: int, most_partitions: int) -> GroupStatistics:
        """Counters, and samples of the first groups by name, with progress of at most `most_partitions`."""
        names = sorted(self._durable.groups.by_name)
        left = most_partitions

        def sample(group: Group) -> GroupSample:
            nonlocal left
            partitions = count_partitions(group)
            fits = partitions <= left
            left -= partitions if fits else 0
            return GroupSample(admin.summarize_group(group), take_progress(group) if fits else None)

        samples = [each async for each in self._each(names[:most_groups], sample)]
        meter = self._durable.meter
        counts = meter.commits, meter.rebalances, meter.given_up
        return GroupStatistics(len(names), tuple(samples), *counts, meter.seconds.freeze())

    async def describe(self, group: str) -> Answer[GroupDescription]:
        return await self._look(group, admin.describe_group, self._is_large)

    async def put_offsets(self, group: str, given: Mapping[TopicPartition, Commitment]) -> Answer[None]:
        return await self._do(
            group,
            lambda known: admin.decide_put_offsets(
                known, given, self._tending.cluster, self._offsets, self._clock_ms()
            ),
            large=lambda known: len(given) >= LARGE or self._is_large(known),
        )

    async def reset(
        self, group: str, wanted: Mapping[TopicPartition, Target], *, dry_run: bool = False
    ) -> Answer[dict[TopicPartition, Reset]]:
        """Reset offsets. To reset to a time, the caller looks it up and passes `Found`."""

        def decide(known: Group) -> Decision[dict[TopicPartition, Reset]]:
            return admin.decide_reset(known, wanted, self._tending.cluster, self._offsets, self._clock_ms())

        def large(known: Group) -> bool:
            return len(wanted) >= LARGE or self._is_large(known)

        if dry_run:
            return await self._look(group, lambda known: decide(known).reply, large)
        return await self._do(group, decide, large=large)

    async def delete(self, group: str) -> Answer[None]:
        return await self._do(group, admin.decide_delete, large=self._is_large)

    # --- topics

    async def topics_changed(self) -> None:
        """Adapt the groups after a topic came, went or grew: done when this returns, or on failure soon after."""
        await self._tending.topics_changed()

    async def close(self) -> bool:
        """End all polls as at their deadline; False if something is not known to be durable after a few seconds."""
        self._polls.close()
        await self._deadlines.close()
        done = await self._durable.close(_CLOSING_S)
        self._threads.shutdown(wait=False)
        return done

    # --- callbacks of durable decisions

    def applied(self, decision: Decision[Any]) -> None:
        if decision.records or decision.notes:
            self._deadlines.touch(decision.group)
        self._polls.wake(decision.group, decision.woken)

    def taken_back(self) -> None:
        self._polls.wake_all()

    async def _do(
        self,
        group: str,
        decide: Callable[[Group], Decision[T]],
        member_id: str | None = None,
        large: Large | None = None,
    ) -> Answer[T]:
        decision = await self._durable.do(group, decide, member_id=member_id, large=large)
        return Answer(decision.reply, decision.generation)

    async def _do_for(
        self, group: str, command: Cmd, decide: Callable[[Group, Cmd, Cluster, int], Decision[T]], large: Large
    ) -> Answer[T]:
        """Run a member's command; it counts as a sign of life even if it is refused."""
        return await self._do(
            group,
            lambda known: decide(known, command, self._tending.cluster, self._clock_ms()),
            command.member_id,
            large,
        )

    async def _do_at(
        self,
        group: str,
        command: Cmd,
        decide: Callable[[Group, Cmd, Cluster, LogOffsets, int], Decision[T]],
        large: Large,
    ) -> Answer[T]:
        """Run a member's command whose decision needs the offsets of the log."""
        return await self._do_for(
            group, command, lambda known, asked, cluster, now: decide(known, asked, cluster, self._offsets, now), large
        )

    async def _look(self, group: str, read: Callable[[Group], T], large: Large | None = None) -> Answer[T]:
        """Read durable state: it waits as a decision does."""
        return await self._do(group, lambda known: Decision(known.name, read(known), known.generation), large=large)

    def _is_large(self, known: Group) -> bool:
        return is_large(known, self._tending.cluster)

    async def _each(self, names: Sequence[str], look: Callable[[Group], T]) -> AsyncGenerator[T]:
        """Read groups that still exist, one by one. A caller's work between two of them delays the whole loop."""
        for number, name in enumerate(names):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if name in self._durable.groups.by_name:
                yield await self._durable.read(name, look, self._is_large)


def _load(log: Log) -> tuple[Ledger, Groups]:
    ledger = log.open_ledger(TABLES)
    records = records_of_groups(ledger.load(GROUPS.name)) + records_of_offsets(ledger.load(OFFSETS.name))
    return ledger, Groups(records)
