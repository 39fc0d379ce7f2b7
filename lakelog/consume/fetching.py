"""Fetches of records, and seeks. Pure.

One request at a time; each has the number of the last answer that arrived, so that the server repeats lost ones.
Records of a partition are taken only if it was not sought or reassigned during the fetch.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final, NamedTuple, cast

from lakelog.consume.consumer_state import NO_GENERATION, ConsumerState
from lakelog.consume.effects import NOW, Doing, Pace, Wait, code_of, fault_in
from lakelog.consume.instance_api import Asked, Wire, is_last_try, number_in, read_records
from lakelog.consume.membership import STALE, UNKNOWN_INSTANCE
from lakelog.consume.partition_state import Held
from lakelog.consume.record_run import RecordRun
from lakelog.foundation.errors import Fenced, IllegalState, LakelogError
from lakelog.foundation.topic_partition import TopicPartition
from lakelog.transport.exchange import Answer, Request
from lakelog.transport.retry import Heard
from lakelog.transport.server_errors import Fault

#: The pause after an empty answer that came at once, as from a server that is shutting down.
_AT_ONCE_S: Final = 0.02

Turns = Mapping[TopicPartition, tuple[Held, int]]


class Given(NamedTuple):
    """Generation and numbering of an answer. `jumped`: the server lost its positions of this member, and restarted.

    `alone`: an answer before it did not arrive.
    """

    generation: int
    jumped: bool
    alone: bool


class Fetching:
    """Lane of fetches and seeks. `arrow`: the last poll asked for Arrow batches."""

    def __init__(self, known: ConsumerState, wire: Wire) -> None:
        self.arrow = False
        self._known = known
        self._wire = wire
        self._pace = Pace(known.settings.backoff)
        self._last_count = 0

    def run(self) -> Doing[None]:
        """Run until the consumer ends."""
        known = self._known
        now = (yield NOW).now
        while not known.ended:
            if known.stopped or known.fatal or known.leaving or not known.settled_in:
                now = (yield Wait()).now
            elif now < self._pace.not_before:
                now = (yield Wait(self._pace.not_before)).now
            elif seeks := self._seeks():
                now = yield from self._seek(seeks)
            elif self._wants_more():
                now = yield from self._fetch(now)
            else:
                now = (yield Wait()).now

    # --- seeking

    def _seeks(self) -> dict[TopicPartition, int]:
        """Pending seeks of partitions that were assigned in one generation: a request names one."""
        held = [each for each in self._known.held.values() if each.sought is not None and each.stays]
        return {each.partition: each.sought or 0 for each in held if each.since == held[0].since}

    def _seek(self, seeks: dict[TopicPartition, int]) -> Generator[Request, Heard, float]:
        known = self._known
        turns = {partition: known.held[partition].turns for partition in seeks}
        member, since = known.member, known.held[next(iter(seeks))].since
        heard = yield self._wire.seek(member or "", seeks, known.received, since)
        fault = self._fault(heard, "seeking")
        if known.member != member:
            return heard.now
        if fault is None:
            self._pace.succeeded()
            self._forget(seeks, turns)
            return heard.now
        if known.subscribed and isinstance(fault.error, IllegalState | Fenced):
            known.learn = True  # the partition was lost, or assigned again
            known.touch()
            self._pace.failed(heard)
            return heard.now
        self._failed(heard, fault)
        if not fault.again and code_of(fault) != UNKNOWN_INSTANCE:
            self._forget(seeks, turns)
            known.fail(fault.error)
        return heard.now

    def _forget(self, seeks: dict[TopicPartition, int], turns: dict[TopicPartition, int]) -> None:
        """Clear seeks that are done or failed, unless the caller sought again meanwhile."""
        for partition in seeks:
            held = self._known.held.get(partition)
            if held is not None and held.turns == turns[partition]:
                held.sought = None

    # --- records

    def _wants_more(self) -> bool:
        known = self._known
        if not (known.polling or known.hungry):
            return False
        if known.held and not any(held.readable for held in known.held.values()):
            return False
        if known.careful and (not known.polling or known.commits or known.buffer.ready):
            return False  # a record's last attempt is delivered only to a member without other records in hand
        enough = max(known.settings.max_poll_records, self._last_count // 2)
        anything = bool(known.held) or (known.subscribed and known.generation != NO_GENERATION)
        return anything and known.buffer.ready < enough

    def _fetch(self, began: float) -> Doing[float]:
        known = self._known
        known.hungry = False
        turns = {partition: (held, held.turns) for partition, held in known.held.items()}
        paused = [partition for partition, held in known.held.items() if not held.readable]
        member, generation = known.member, known.generation if known.subscribed else None
        of = Asked(paused, known.received, known.done, generation)
        heard = yield self._wire.records(member or "", of, arrow=self.arrow)
        fault = self._fault(heard, "reading records")
        if fault is not None:
            if known.member == member:
                known.answers_lost += fault.unknown
                self._failed(heard, fault)
            return heard.now
        answer = cast("Answer", heard.outcome)
        try:
            records = read_records(answer)
        except LakelogError as error:
            known.answers_lost += known.member == member
            known.warnings.append(str(error))
            self._pace.failed(heard)
            return heard.now
        self._pace.succeeded()
        if known.member != member:
            return heard.now
        known.heard_at, known.careful = heard.now, is_last_try(answer)
        given = self._received(answer)
        now = yield from self._until_learned(given, records, heard.now)
        if known.member == member:
            self._accept(given, records, turns)
        if not records and now - began < _AT_ONCE_S:
            self._pace.not_before = now + _AT_ONCE_S
        return now

    def _received(self, answer: Answer) -> Given:
        known = self._known
        number = number_in(answer, "lakelog-answer") or known.received
        alone = number > known.received + 1
        jumped = number > known.received + known.answers_lost + 1
        known.received, known.answers_lost = number, 0
        return Given(number_in(answer, "lakelog-generation") or 0, jumped, alone)

    def _until_learned(self, given: Given, records: list[tuple[TopicPartition, RecordRun]], now: float) -> Doing[float]:
        """Wait for a new heartbeat if the answer has a new generation or an unknown partition."""
        known = self._known
        if not known.subscribed:
            return now
        if given.generation == known.generation and all(partition in known.held for partition, _ in records):
            return now
        known.learn = True
        known.touch()
        member, beat = known.member, known.beats + 1  # a heartbeat in flight may be older than the answer
        while known.learned < beat and known.member == member and not known.ended and not known.leaving:
            now = (yield Wait()).now
        return now

    def _accept(self, given: Given, records: list[tuple[TopicPartition, RecordRun]], turns: Turns) -> None:
        known = self._known
        if given.jumped:
            known.go_on_where_we_are()
        for partition, stretch in records:
            held = known.held.get(partition)
            if held is None or not held.stays:
                known.miss(partition, given.generation, stretch.first)
                continue
            if held.since is not None and held.since > given.generation:
                continue  # the partition was assigned again after this answer
            asked, turn = turns.get(partition, (None, 0))
            sought = held.turns != turn if asked is held else held.sought is not None
            if not sought and (asked is held or known.subscribed):
                self._take(held, stretch, given)
        self._last_count = sum(len(stretch) for _, stretch in records)
        if records:
            known.touch()

    def _take(self, held: Held, stretch: RecordRun, given: Given) -> None:
        """Buffer records. If the server went back because it lost its position, records seen before are left out."""
        known = self._known
        if held.expected is not None and stretch.first != held.expected:
            if held.sought is not None or given.jumped:
                return
            if stretch.first < held.expected and not known.subscribed and given.alone:
                # A late request of this member may have moved the server back; or the topic was recreated.
                held.sought = held.expected
                return
            if stretch.first < held.expected and known.subscribed:  # else the topic was recreated
                index = stretch.index_of(held.expected)
                if index == len(stretch):
                    return
                stretch = stretch.part(index)
        if held.paused and known.buffer.holds(held):  # paused during the fetch, or cut from the list of paused
            held.sought = held.expected
            return
        held.sought = None
        known.buffer.add(held, stretch, known.received)

    def _failed(self, heard: Heard, fault: Fault) -> None:
        known = self._known
        self._pace.failed(heard, fault.retry_after_s)
        if code_of(fault) == UNKNOWN_INSTANCE:
            known.expelled(known.member, heard.now)
        elif code_of(fault) == STALE:
            known.lose(known.held.values())
        elif not fault.again:
            known.fail(fault.error)

    def _fault(self, heard: Heard, what: str) -> Fault | None:
        return fault_in(heard, what, self._known.settings.bootstrap_servers)
