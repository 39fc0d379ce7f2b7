"""Stores dead letters: the copies of records and the marks by which the group skips them are one unit of the journal.

So whenever the process dies, none is copied and still delivered, and none is skipped without its copy. It knows how to
read a record and prepare a letter; it must not know which records are given up, or why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from consumer_groups.coordinator.durable_state import Asked, DurableGroups
from consumer_groups.decisions.dead_lettering import GiveUp, Open, Outdated, Spot, decide_giving_up, plan_giving_up
from consumer_groups.decisions.last_attempt import PoisonRecord
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster, Offsets
from consumer_groups.model.dead_letter import Letter, Origin, configs_for_letters, without_value
from consumer_groups.model.errors import Fenced, NotOpen, UnknownInstance
from consumer_groups.state.decision import Decision
from consumer_groups.state.state import Group
from delta_log import LakelogError, Log, Prepared, Record
from delta_log.model.errors import (
    Closed,
    Corruption,
    InvalidRecord,
    InvalidRequest,
    OffsetOutOfRange,
    RecordTooLarge,
    TopicClosed,
    TopicExists,
    UnknownTopic,
)

T = TypeVar("T")
_ANY_SIZE: Final = 1
#: Interval of retries while no topic can take a letter.
_AGAIN_MS: Final = 10_000
_log: Final = logging.getLogger("lakelog")


class Topics(Protocol):
    """Topics as groups know them."""

    @property
    def cluster(self) -> Cluster: ...
    async def topics_changed(self) -> None: ...


class Filled(NamedTuple):
    """Prepared letters of records, in order, for one topic."""

    topic: str
    spots: Sequence[Spot]
    prepared: Prepared


class _Tried(NamedTuple):
    """Letters that a topic takes, and those it refuses, with the reason of the last refusal."""

    filled: Sequence[Filled]
    refused: Mapping[Spot, Letter]
    why: LakelogError | None


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A record given up. `letter`: position of its copy; None if it was copied before, or nothing was left to copy."""

    spot: Spot
    letter: Spot | None


class DeadLetterWriter:
    """Dead-letter writer for all groups of a process."""

    def __init__(
        self,
        log: Log,
        durable: DurableGroups,
        topics: Topics,
        offsets: Offsets,
        clock_ms: Callable[[], int],
        threads: Executor,
    ) -> None:
        self._log = log
        self._durable = durable
        self._topics = topics
        self._offsets = offsets
        self._clock_ms = clock_ms
        self._threads = threads
        #: when to retry letters that no topic could take
        self._again_ms: dict[tuple[str, Spot], int] = {}

    async def give_up(self, group: str, command: GiveUp) -> Decision[tuple[GivenUp, ...]]:
        """Give up records, durably, all or none. Records given up before stay as they are."""
        while True:
            looked = await self._durable.do(
                group, lambda known: self._look(known, command), member_id=command.member_id
            )
            planned = looked.reply
            letters = await self._run(partial(self._read_letters, group, planned, command.reasons))
            filled = await self._prepare(planned.to, letters, group)
            with suppress(Outdated):
                return await self._store(group, command, planned, filled)

    async def give_up_spoiled(
        self, group: str, member_id: str, spoiled: tuple[PoisonRecord, ...]
    ) -> frozenset[TopicPartition]:
        """Give up records that a poll found to be delivered too often; if the partition moved, its new owner does so.

        Returns the partitions that have to wait: no topic can take the letter now, and without one nothing is skipped.
        """
        waits: set[TopicPartition] = set()
        for each in spoiled:
            spot, now_ms = Spot(each.partition, each.offset), self._clock_ms()
            if now_ms < self._again_ms.get((group, spot), now_ms):
                waits.add(each.partition)
                continue
            self._again_ms.pop((group, spot), None)
            try:
                with suppress(Fenced, NotOpen, UnknownInstance):
                    await self._give_up_spoiled(group, member_id, spot, each.attempts)
            except (InvalidRequest, TopicClosed, Corruption) as error:
                waits.add(each.partition)
                self._again_ms[group, spot] = now_ms + _AGAIN_MS
                _log.error(
                    "group %s cannot give up offset %d of %s, and waits there: no topic can take the letter: %s",
                    group, spot.offset, spot.partition, error,
                )  # fmt: skip
        return frozenset(waits)

    async def _give_up_spoiled(self, group: str, member_id: str, spot: Spot, attempts: int) -> None:
        why = f"delivered {attempts} times, and never done with"
        decision = await self.give_up(group, GiveUp(member_id, {spot: why}, spoiled=True))
        (given_up,) = decision.reply
        self._durable.meter.given_up += 1
        _log.warning(
            "group %s gave up offset %d of %s: %s; the letter: %s",
            group, spot.offset, spot.partition, why, given_up.letter,
        )  # fmt: skip

    def _look(self, known: Group, command: GiveUp) -> Decision[Open]:
        planned = plan_giving_up(known, command, self._topics.cluster, self._offsets)
        return Decision(known.name, planned, known.generation)

    async def _store(
        self, group: str, command: GiveUp, planned: Open, filled: Sequence[Filled]
    ) -> Decision[tuple[GivenUp, ...]]:
        letters: dict[Spot, Spot] = {}
        if planned.attempts:
            topics = [each.topic for each in filled]
            asked = Asked(group, lambda known: self._decide(known, command, planned, topics), command.member_id)
            (decision,), answers = await self._durable.do_beside([asked], [each.prepared for each in filled])
            letters = {
                spot: Spot(TopicPartition(each.topic, number), offset)
                for each, answer in zip(filled, answers, strict=True)
                for spot, number, offset in zip(each.spots, answer.partitions, answer.offsets(), strict=True)
            }
            generation = decision.generation
        else:
            generation = self._durable.groups.get(group).generation
        given_up = tuple(GivenUp(spot, letters.get(spot)) for spot in command.reasons)
        return Decision(group, given_up, generation)

    def _decide(self, known: Group, command: GiveUp, planned: Open, filled: Sequence[str]) -> Decision[None]:
        cluster, now_ms = self._topics.cluster, self._clock_ms()
        return decide_giving_up(known, command, planned, cluster, self._offsets, now_ms, filled=filled)

    def _read_letters(self, group: str, planned: Open, reasons: Mapping[Spot, str]) -> dict[Spot, Letter]:
        """Read the records to copy, without those compacted away. Run in a thread."""
        letters: dict[Spot, Letter] = {}
        for (topic_id, spot), attempts in planned.attempts.items():
            (topic, number), offset = spot
            try:
                fetched = self._log.read(topic, number, offset, max_records=1, max_bytes=_ANY_SIZE)
            except OffsetOutOfRange as error:
                least, most = error.log_start_offset, error.end_offset - 1
                raise NotOpen(group, topic, number, offset, least, most) from error
            if self._log.describe_topic(topic).id != topic_id:
                continue  # the decision detects that, too
            for record in fetched.records():
                if record.offset == offset:
                    origin, reason = Origin(number, offset), reasons[spot]
                    letters[spot] = Letter(
                        origin, record.timestamp, record.key, record.value, record.headers, reason, attempts=attempts
                    )
        return letters

    async def _prepare(self, topics: Sequence[str], letters: Mapping[Spot, Letter], group: str) -> list[Filled]:
        """Prepare letters by topic: those that one cannot take go to the next; raises if none can."""
        filled: list[Filled] = []
        why: LakelogError | None = None
        for topic in topics:
            tried = await self._prepare_for(topic, letters, group)
            filled += tried.filled
            letters, why = tried.refused, tried.why
        if why is not None:
            raise why
        return filled

    async def _prepare_for(self, to: str, letters: Mapping[Spot, Letter], group: str) -> _Tried:
        """Prepare letters for a topic, created if missing. A letter that is too large is stored without its value.

        Records of the topic itself are left out: they are dead letters already.
        """
        left = {spot: letter for spot, letter in letters.items() if spot.partition.topic != to}
        refused: dict[Spot, Letter] = {}
        why: LakelogError | None = None
        while left:
            spots = list(left)
            try:
                partitions = await self._run(lambda: self._log.describe_topic(to).partitions)
                records = [_as_record(spot, left[spot], group, partitions) for spot in spots]
                return _Tried([Filled(to, spots, await self._log.prepare_async(to, records))], refused, why)
            except UnknownTopic:
                try:
                    await self._make_topic(to, spots[0].partition.topic)
                except TopicExists as error:
                    return _Tried([], dict(letters), error)
            except InvalidRecord as error:
                spot = spots[error.index]
                if isinstance(error, RecordTooLarge) and not left[spot].left_out:
                    left[spot] = without_value(left[spot])
                else:
                    del left[spot]
                    refused[spot], why = letters[spot], error
        return _Tried([], refused, why)

    async def _make_topic(self, to: str, of: str) -> None:
        """Create the topic with as many partitions as the topic of the first letter."""
        try:
            await self._run(lambda: self._create(to, of))
        except TopicExists as error:  # it may have been created at the same time
            if error.existing != to:
                raise
        await self._topics.topics_changed()

    def _create(self, to: str, of: str) -> None:
        origin = self._log.describe_topic(of)
        self._log.create_topic(to, origin.partitions, configs_for_letters(origin.config.max_message_bytes))

    async def _run(self, act: Callable[[], T]) -> T:
        try:
            running: Any = asyncio.get_running_loop().run_in_executor(self._threads, act)
        except RuntimeError:
            raise Closed from None
        return await running


def _as_record(spot: Spot, letter: Letter, group: str, partitions: int) -> Record:
    """Record of a letter, in the partition of the same number, modulo the number of partitions."""
    headers = tuple(letter.all_headers(spot.partition.topic, group))
    return Record(letter.value, letter.key, headers=headers, partition=letter.origin.partition % partitions)
