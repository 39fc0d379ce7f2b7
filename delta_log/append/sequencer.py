"""The sequencer: assigns offsets. Changes only the log end offsets of partitions and the producers' state.

Offsets are tentative until the group is durable: `take_back` undoes all of it.

Many clients send one record at a time. Rows of a group's small requests to one partition are adjacent, so they are
merged into one frame: all later work costs per frame, not per request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from delta_log.append.append_unit import EncodedRows, KnownTable, LedgerRequest, LedgerRun, Prepared
from delta_log.append.commit_queue import Unit
from delta_log.journal.group_format import Frame, Payload, checksum
from delta_log.model.errors import LakelogError, TopicClosed, UnknownTopic
from delta_log.model.types import Appended, OffsetRange, ProducerStamp
from delta_log.records.epoch_bump import EpochBump
from delta_log.records.idempotence import CONTENT_BYTES, ProducerRow, Producers, Repeat, Undo
from delta_log.records.keyed_table import join_rows
from delta_log.records.payload_kinds import LEDGER, PRODUCERS, ROWS
from delta_log.records.request import LARGE, Part, Request, SpilledRows, assignment_digest, merge_parts
from delta_log.records.row_codec import RowBlock
from delta_log.topics.partition_state import PartitionState
from delta_log.topics.topic_state import PRODUCERS_TABLE, TopicState, producer_payload

#: The answer to a ledger request and to a bump: the caller has the details in its request.
_STORED: Final = Appended(())


class Run(msgspec.Struct, gc=False):
    """Adjacent rows of small requests, collected into one frame; `stamps` are the producers' stamps, by part."""

    live: TopicState
    base_offset: int
    parts: list[Part]
    stamps: list[ProducerStamp | None]
    timestamp_ms: int


class Group:
    """A group in flight: its frames, and the work to do once it is durable."""

    __slots__ = (
        "bumped", "frames", "ledger_runs", "parts", "payloads", "rows", "runs", "settled", "tails", "undo", "units",
    )  # fmt: skip

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        self.frames: list[Frame] = []
        self.payloads: list[Payload] = []
        self.parts: list[tuple[TopicState, int, Part | None, ProducerStamp | None]] = []
        #: partitions whose log end offset was moved, by identity
        self.tails: dict[int, PartitionState] = {}
        self.runs: dict[int, Run] = {}
        self.ledger_runs: dict[int, LedgerRun] = {}
        self.undo: list[Undo] = []
        self.rows: list[ProducerRow] = []
        #: producers with a reserved epoch opened, for which no row is written
        self.bumped: list[str] = []
        #: retries of requests that are durable already, whatever the outcome of this group
        self.settled: list[Unit] = []


class Sequencer:
    """The sequencer of one owner. `producer_table` remembers idempotent requests; None until the first arrives.

    `unsettled`: the outcome of the last group is unknown until a later group is stored.
    """

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.producers = Producers()
        self.producer_table: TopicState | None = None
        self.unsettled = False

    def sequence(self, group: Group) -> None:
        """Assign offsets to every unit that can be stored; set `error` on the others."""
        for unit in group.units:
            try:
                self._sequence(group, unit)
            except LakelogError as error:
                unit.error = error
        for run in group.runs.values():
            self._close(group, run)
        for ledger_run in group.ledger_runs.values():
            self._close_ledger(group, ledger_run)
        if group.rows:
            self._close_producers(group)

    def take_back(self, group: Group) -> None:
        """Undo a group that is not durable: its offsets are free again."""
        for tail in group.tails.values():
            tail.log_end_offset = tail.high_watermark
        for undo in reversed(group.undo):
            self.producers.undo(undo)

    def _sequence(self, group: Group, unit: Unit) -> None:
        live, request = unit.live, unit.request
        if isinstance(request, LedgerRequest):
            self._sequence_unit(group, request)
            unit.result = _STORED
            return
        if isinstance(request, EpochBump):
            self.bump(group, request)
            unit.result = _STORED
            return
        if live is None:
            raise ValueError("a request without its topic")
        stamp = request.stamp
        check_writable(live)
        memory = None if stamp is None else self._producer_memory()
        if stamp is not None:
            decision = self.producers.decide(live.id, stamp, request.count, request.digest)
            if isinstance(decision, Repeat):
                unit.result = repeated(request, decision.row)
                if not _is_under_way(group, (stamp.producer_id, live.id), decision.row):
                    group.settled.append(unit)
                return
            if request.refusal is not None:
                raise request.refusal
        ranges = [self._give_offsets(group, live, request, part) for part in request.parts]
        if stamp is not None and memory is not None:
            self._remember(group, memory, producer_row_of(live, request, stamp, ranges))
        unit.result = Appended(tuple(ranges), tuple(request.assignment), request.timestamp_ms)

    def _sequence_unit(self, group: Group, request: LedgerRequest) -> None:
        """Assign offsets in every topic and table of a unit, if none of them refuses it."""
        try:
            if request.line is not None:
                request.line.check(request.number)
            for known, *_ in request.parts:
                _writable(known)
            for append in request.appends:
                check_writable(append.live)
            answers = plan_appends(request.appends)
            decided = () if request.decide is None else request.decide(self.producers, answers)
            for known, *_ in decided:
                _writable(known)
        except LakelogError as error:
            request.break_line(error)
            raise
        for append in request.appends:
            for part in append.request.parts:
                self._give_offsets(group, append.live, append.request, part)
        _give_places(group, request.parts, request.timestamp_ms)
        _give_places(group, decided, request.timestamp_ms)
        request.answers = answers

    def bump(self, group: Group, bump: EpochBump) -> None:
        """Open the next epoch of a producer; its row is journaled like that of any request.

        A reserved epoch needs no row. It is answered once everything admitted before it is durable, in this group or an
        earlier one; where that is in doubt, a row is written to settle it.
        """
        memory, producer_id, now_ms = self._producer_memory(), bump.producer_id, bump.timestamp_ms
        if bump.reserves and not self.unsettled:
            reserved = self.producers.decide_reserved(producer_id, now_ms, bump.floor)
            if reserved is not None:
                group.undo.append(self.producers.open_reserved(producer_id, reserved))
                group.bumped.append(producer_id)
                bump.opened = reserved
                return
        row = self.producers.decide_bump(producer_id, now_ms, bump.floor, reserves=bump.reserves)
        self._remember(group, memory, row)
        bump.opened = row.epoch

    def _producer_memory(self) -> TopicState:
        table = self.producer_table
        if table is None:
            raise TopicClosed(PRODUCERS_TABLE, "its table is not open", "try again")
        check_writable(table)
        return table

    def _give_offsets(self, group: Group, live: TopicState, request: Request, part: Part) -> OffsetRange:
        tail, count = live.tails[part.partition], len(part.rows)
        base, tail.log_end_offset = tail.log_end_offset, tail.log_end_offset + count
        group.tails[id(tail)] = tail
        run = group.runs.get(id(tail))
        if part.kind == ROWS and count < LARGE and isinstance(part.rows, RowBlock):
            if run is None:
                group.runs[id(tail)] = Run(live, base, [part], [request.stamp], request.timestamp_ms)
            else:
                run.parts.append(part)
                run.stamps.append(request.stamp)
        else:
            if run is not None:
                self._close(group, group.runs.pop(id(tail)))
            self._add(group, live, part, base, request.timestamp_ms, request.stamp)
        return OffsetRange(part.partition, base, count)

    def _close(self, group: Group, run: Run) -> None:
        if len(run.parts) == 1:
            part, stamp = run.parts[0], run.stamps[0]
        else:
            part, stamp = merge_parts(run.parts, run.stamps), None
        self._add(group, run.live, part, run.base_offset, run.timestamp_ms, stamp)

    def _add(
        self, group: Group, live: TopicState, part: Part, base: int, timestamp_ms: int, stamp: ProducerStamp | None
    ) -> None:
        frame = Frame(
            part.kind,
            live.name,
            live.id,
            part.partition,
            base,
            len(part.rows),
            self.epoch,
            len(part.payload),
            part.rows.crc if isinstance(part.rows, SpilledRows) else checksum(part.payload),
            timestamp_ms,
            None if stamp is None else (stamp.producer_id, stamp.epoch),
        )
        group.frames.append(frame)
        group.payloads.append(part.payload)
        group.parts.append((live, part.partition, part, stamp))

    def _remember(self, group: Group, table: TopicState, row: ProducerRow) -> None:
        """Record that this producer's request is stored; the row is journaled with the request."""
        group.undo.append(self.producers.replay(row))
        group.rows.append(row)
        tail = table.tails[0]
        tail.log_end_offset += 1
        group.tails[id(tail)] = tail

    def _close_producers(self, group: Group) -> None:
        """Put all producer rows of the group into one frame."""
        table, count = self._producer_memory(), len(group.rows)
        place = table.tails[0].log_end_offset - count, count
        self._add_internal(group, table, PRODUCERS, place, producer_payload(group.rows), group.rows[-1].timestamp_ms)

    def _close_ledger(self, group: Group, run: LedgerRun) -> None:
        place = run.base, len(run.rows)
        self._add_internal(group, run.live, LEDGER, place, join_rows(run.rows), run.timestamp_ms)

    def _add_internal(
        self, group: Group, table: TopicState, kind: int, place: tuple[int, int], payload: bytes, timestamp_ms: int
    ) -> None:
        """Add a frame of an internal table; `place` is the base offset and the count of rows."""
        crc = checksum(payload)
        frame = Frame(kind, table.name, table.id, 0, *place, self.epoch, len(payload), crc, timestamp_ms)
        group.frames.append(frame)
        group.payloads.append(payload)
        group.parts.append((table, 0, None, None))


def _is_under_way(group: Group, producer: tuple[str, str], row: ProducerRow | None) -> bool:
    """True if a retry may repeat a request of this same group; a guess by key if its row was forgotten."""
    return any(other is row if row is not None else other.key == producer for other in group.rows)


def plan_appends(appends: Sequence[Prepared]) -> tuple[Appended, ...]:
    """Predict the answers to these appends, in this order; assigns nothing."""
    following: dict[int, int] = {}
    answers: list[Appended] = []
    for append in appends:
        ranges: list[OffsetRange] = []
        for part in append.request.parts:
            tail = append.live.tails[part.partition]
            base = following.get(id(tail), tail.log_end_offset)
            following[id(tail)] = base + len(part.rows)
            ranges.append(OffsetRange(part.partition, base, len(part.rows)))
        answers.append(Appended(tuple(ranges), tuple(append.request.assignment), append.request.timestamp_ms))
    return tuple(answers)


def _give_places(group: Group, parts: EncodedRows, timestamp_ms: int) -> None:
    """Assign offsets to rows of writable tables."""
    for known, rows, _ in parts:
        live = _writable(known)
        if not rows:
            continue
        tail = live.tails[0]
        base, tail.log_end_offset = tail.log_end_offset, tail.log_end_offset + len(rows)
        group.tails[id(tail)] = tail
        run = group.ledger_runs.get(id(tail))
        if run is None:
            group.ledger_runs[id(tail)] = LedgerRun(live, base, list(rows), timestamp_ms)
        else:
            run.rows += rows


def _writable(known: KnownTable) -> TopicState:
    if known.live is None:
        raise TopicClosed(known.table.name, "its table is not open", "try again")
    check_writable(known.live)
    return known.live


def check_writable(live: TopicState) -> None:
    """Raise if no offset may be assigned in this topic."""
    if live.deleted:
        raise UnknownTopic(live.name)
    if live.closed is not None:
        raise live.closed
    if not live.owned:
        raise TopicClosed(live.name, "its table has not been taken over", "try again")


def producer_row_of(
    live: TopicState, request: Request, stamp: ProducerStamp, ranges: Sequence[OffsetRange]
) -> ProducerRow:
    return ProducerRow(
        stamp.producer_id,
        live.name,
        live.id,
        stamp.epoch,
        stamp.sequence,
        request.count,
        request.digest if len(ranges) == 1 else request.digest + assignment_digest(request.assignment),
        request.partitions,
        tuple([(given.partition, given.base_offset, given.count) for given in ranges]),
        request.timestamp_ms,
    )


def repeated(request: Request, row: ProducerRow | None) -> Appended:
    """The first answer once more.

    Which record went where is known only as long as the topic assigns as it did then; the ranges always are.
    """
    if row is None:
        return Appended((), (), request.timestamp_ms, duplicate=True)
    assignment = request.assignment
    if row.partitions != request.partitions and request.reassign is not None:
        assignment = request.reassign(row.partitions)
    spread, known = row.digest[CONTENT_BYTES:], Counter(assignment) == {place: count for place, _, count in row.ranges}
    if not known or (spread and spread != assignment_digest(assignment)):
        assignment = ()
    return Appended(row.offset_ranges(), tuple(assignment), row.timestamp_ms, duplicate=True)
