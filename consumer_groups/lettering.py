"""Stores dead letters: the copies of records, and that the group passes them, are one unit of the journal.

So none is copied and still delivered, and none is passed without its copy, whenever the process dies. It knows how a
record is read and a letter prepared; it must not know which records are given up, or why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from consumer_groups.assignment import TopicPartition
from consumer_groups.cluster import Cluster, Offsets
from consumer_groups.decision import Decision
from consumer_groups.durable import Asked, DurableGroups
from consumer_groups.errors import Fenced, NotOpen, UnknownInstance
from consumer_groups.giving_up import GiveUp, Open, Outdated, Spot, decide_giving_up, plan_giving_up
from consumer_groups.last_tries import Spoiled
from consumer_groups.letters import Letter, Origin, configs_for_letters, without_value
from consumer_groups.state import Group
from delta_log import Log, Prepared, Record
from delta_log.errors import Closed, OffsetOutOfRange, RecordTooLarge, TopicExists, UnknownTopic

T = TypeVar("T")
_ANY_SIZE: Final = 1
_log: Final = logging.getLogger("lakelog")


class Topics(Protocol):
    """The topics as groups know them."""

    @property
    def cluster(self) -> Cluster: ...
    async def topics_changed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class GivenUp:
    """`letter` is where the copy lies; None where it was copied before, or there was nothing left to copy."""

    spot: Spot
    letter: Spot | None


class Lettering:
    """Of all groups of a process."""

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

    async def give_up(self, group: str, command: GiveUp) -> Decision[tuple[GivenUp, ...]]:
        """Durable when it returns: all of them, or none. What was given up before stays as it is."""
        while True:
            looked = await self._durable.do(
                group, lambda known: self._look(known, command), member_id=command.member_id
            )
            planned = looked.reply
            letters = await self._run(partial(self._read_letters, group, planned, command.reasons))
            prepared = await self._prepare(planned.to, letters, group)
            with suppress(Outdated):
                return await self._store(group, command, planned, list(letters), prepared)

    async def give_up_spoiled(self, group: str, member_id: str, spoiled: tuple[Spoiled, ...]) -> None:
        """What a poll found to be delivered too often. Whoever reads it meanwhile sees to it instead."""
        reasons = {
            Spot(each.partition, each.offset): f"delivered {each.attempts} times, and never done with"
            for each in spoiled
        }
        with suppress(Fenced, NotOpen, UnknownInstance):
            decision = await self.give_up(group, GiveUp(member_id, reasons, spoiled=True))
            self._durable.meter.given_up += len(decision.reply)
            for given_up in decision.reply:
                _log.warning(
                    "group %s gave up offset %d of %s: %s; the letter: %s",
                    group, given_up.spot.offset, given_up.spot.partition, reasons[given_up.spot], given_up.letter,
                )  # fmt: skip

    def _look(self, known: Group, command: GiveUp) -> Decision[Open]:
        planned = plan_giving_up(known, command, self._topics.cluster, self._offsets)
        return Decision(known.name, planned, known.generation)

    async def _store(
        self, group: str, command: GiveUp, planned: Open, copied: list[Spot], prepared: list[Prepared]
    ) -> Decision[tuple[GivenUp, ...]]:
        letters: dict[Spot, Spot] = {}
        if planned.attempts:
            asked = Asked(group, lambda known: self._decide(known, command, planned), command.member_id)
            (decision,), answers = await self._durable.do_beside([asked], prepared)
            places = [
                Spot(TopicPartition(planned.to, number), offset)
                for answer in answers
                for number, offset in zip(answer.partitions, answer.offsets(), strict=True)
            ]
            letters = dict(zip(copied, places, strict=True))
            generation = decision.generation
        else:
            generation = self._durable.groups.get(group).generation
        given_up = tuple(GivenUp(spot, letters.get(spot)) for spot in command.reasons)
        return Decision(group, given_up, generation)

    def _decide(self, known: Group, command: GiveUp, planned: Open) -> Decision[None]:
        return decide_giving_up(known, command, planned, self._topics.cluster, self._offsets, self._clock_ms())

    def _read_letters(self, group: str, planned: Open, reasons: Mapping[Spot, str]) -> dict[Spot, Letter]:
        """Without what is compacted away, and what is a dead letter there already. Run in a thread."""
        letters: dict[Spot, Letter] = {}
        for (topic_id, spot), attempts in planned.attempts.items():
            (topic, number), offset = spot
            if topic == planned.to:
                continue
            try:
                fetched = self._log.read(topic, number, offset, max_records=1, max_bytes=_ANY_SIZE)
            except OffsetOutOfRange as error:
                least, most = error.log_start_offset, error.end_offset - 1
                raise NotOpen(group, topic, number, offset, least, most) from error
            if self._log.describe_topic(topic).id != topic_id:
                continue  # the decision finds that, too
            for record in fetched.records():
                if record.offset == offset:
                    origin, reason = Origin(number, offset), reasons[spot]
                    letters[spot] = Letter(
                        origin, record.timestamp, record.key, record.value, record.headers, reason, attempts=attempts
                    )
        return letters

    async def _prepare(self, to: str, letters: dict[Spot, Letter], group: str) -> list[Prepared]:
        """In a topic that is made where there is none. What is too large for it goes without its content."""
        spots = list(letters)
        while spots:
            try:
                partitions = await self._run(lambda: self._log.describe_topic(to).partitions)
                records = [_as_record(spot, letters[spot], group, partitions) for spot in spots]
                return [await self._log.prepare_async(to, records)]
            except UnknownTopic:
                await self._make_topic(to, spots[0].partition.topic)
            except RecordTooLarge as error:
                large = letters[spots[error.index]]
                if large.left_out:
                    raise
                letters[spots[error.index]] = without_value(large)
        return []

    async def _make_topic(self, to: str, of: str) -> None:
        """As many partitions as the topic has whose letters come first."""
        try:
            await self._run(lambda: self._create(to, of))
        except TopicExists as error:  # somebody else may make it at the same time
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
    """Letters of a partition go to the one of its number, as far as there are so many."""
    headers = tuple(letter.all_headers(spot.partition.topic, group))
    return Record(letter.value, letter.key, headers=headers, partition=letter.origin.partition % partitions)
