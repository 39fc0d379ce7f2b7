"""Giving out offsets. Decides, and changes nothing but the next offset of the tails that it gives them from.

What is given out is tentative until the group is durable: `take_back` undoes all of it.

A crowd sends one record at a time. The rows that the plain requests of a group bring to one partition lie side by side,
so they become one frame: everything behind this point costs by the frame, not by the request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec

from delta_log.errors import LakelogError, TopicClosed, UnknownTopic
from delta_log.frames import LEDGER, PRODUCERS, ROWS, Frame, checksum
from delta_log.ledger_request import KnownTable, LedgerRequest, LedgerRun
from delta_log.ledger_table import join_rows
from delta_log.live import PRODUCERS_TABLE, Live, producer_payload
from delta_log.producers import ProducerRow, Producers, Repeat, Undo
from delta_log.request_parts import LARGE, Part, Request, merge_parts
from delta_log.tail import Tail
from delta_log.turns import Unit
from delta_log.types import Appended, OffsetRange, ProducerStamp

#: What a unit of ledger rows is answered with: who brought them knows them.
_STORED: Final = Appended(())


class Run(msgspec.Struct, gc=False):
    """Neighbouring rows of plain requests, on their way to one frame."""

    live: Live
    base_offset: int
    parts: list[Part]
    timestamp_ms: int


class Group:
    """A group on its way: what it writes, and what to do once it is durable."""

    __slots__ = ("frames", "ledger_runs", "parts", "payloads", "rows", "runs", "settled", "tails", "undo", "units")

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        self.frames: list[Frame] = []
        self.payloads: list[bytes] = []
        self.parts: list[tuple[Live, int, Part | None, ProducerStamp | None]] = []
        #: by the identity of their tail
        self.tails: dict[int, Tail] = {}
        self.runs: dict[int, Run] = {}
        self.ledger_runs: dict[int, LedgerRun] = {}
        self.undo: list[Undo] = []
        self.rows: list[ProducerRow] = []
        #: repeats of what is durable already, whatever becomes of this group
        self.settled: list[Unit] = []


class Sequencer:
    """Of one owner. `producer_table` is where idempotent requests are remembered, None until the first shows up."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.producers = Producers()
        self.producer_table: Live | None = None

    def sequence(self, group: Group) -> None:
        """Offsets for every unit that can be stored; the others are told why not."""
        for unit in group.units:
            try:
                self._sequence(group, unit)
            except LakelogError as error:
                unit.error = error
        for run in group.runs.values():
            self._close(group, run)
        for ledger_run in group.ledger_runs.values():
            self._close_ledger(group, ledger_run)

    def take_back(self, group: Group) -> None:
        """The group is not durable: its offsets are free again."""
        for tail in group.tails.values():
            tail.next = tail.end
        for undo in reversed(group.undo):
            self.producers.undo(undo)

    def _sequence(self, group: Group, unit: Unit) -> None:
        live, request = unit.live, unit.request
        if isinstance(request, LedgerRequest):
            _give_places(group, request)
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
                if not any(decision.row is row for row in group.rows):
                    group.settled.append(unit)
                return
        ranges = [self._give_offsets(group, live, request, part) for part in request.parts]
        if stamp is not None and memory is not None:
            self._remember(group, memory, producer_row_of(live, request, stamp, ranges))
        unit.result = Appended(tuple(ranges), tuple(request.assignment), request.timestamp_ms)

    def bump(self, group: Group, producer_id: str, now_ms: int) -> int:
        """Open the next epoch of a producer; to be journaled as every request is."""
        memory = self._producer_memory()
        row = self.producers.decide_bump(producer_id, now_ms)
        self._remember(group, memory, row)
        return row.epoch

    def _producer_memory(self) -> Live:
        table = self.producer_table
        if table is None:
            raise TopicClosed(PRODUCERS_TABLE, "its table is not open", "try again")
        check_writable(table)
        return table

    def _give_offsets(self, group: Group, live: Live, request: Request, part: Part) -> OffsetRange:
        tail, count = live.tails[part.partition], len(part.rows)
        base, tail.next = tail.next, tail.next + count
        group.tails[id(tail)] = tail
        run = group.runs.get(id(tail))
        if request.stamp is None and part.kind == ROWS and count < LARGE:
            if run is None:
                group.runs[id(tail)] = Run(live, base, [part], request.timestamp_ms)
            else:
                run.parts.append(part)
        else:
            if run is not None:
                self._close(group, group.runs.pop(id(tail)))
            self._add(group, live, part, base, request.timestamp_ms, request.stamp)
        return OffsetRange(part.partition, base, count)

    def _close(self, group: Group, run: Run) -> None:
        part = run.parts[0] if len(run.parts) == 1 else merge_parts(run.parts)
        self._add(group, run.live, part, run.base_offset, run.timestamp_ms, None)

    def _add(
        self, group: Group, live: Live, part: Part, base: int, timestamp_ms: int, stamp: ProducerStamp | None
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
            checksum(part.payload),
            timestamp_ms,
            None if stamp is None else (stamp.producer_id, stamp.epoch),
        )
        group.frames.append(frame)
        group.payloads.append(part.payload)
        group.parts.append((live, part.partition, part, stamp))

    def _remember(self, group: Group, table: Live, row: ProducerRow) -> None:
        """Journal, in the same unit, that this producer's request is stored."""
        group.undo.append(self.producers.replay(row))
        group.rows.append(row)
        tail = table.tails[0]
        base, tail.next = tail.next, tail.next + 1
        group.tails[id(tail)] = tail
        self._add_internal(group, table, PRODUCERS, (base, 1), producer_payload(row), row.timestamp_ms)

    def _close_ledger(self, group: Group, run: LedgerRun) -> None:
        place = run.base, len(run.rows)
        self._add_internal(group, run.live, LEDGER, place, join_rows(run.rows), run.timestamp_ms)

    def _add_internal(
        self, group: Group, table: Live, kind: int, place: tuple[int, int], payload: bytes, timestamp_ms: int
    ) -> None:
        """A frame of a table of our own: of so many rows from this place on."""
        crc = checksum(payload)
        frame = Frame(kind, table.name, table.id, 0, *place, self.epoch, len(payload), crc, timestamp_ms)
        group.frames.append(frame)
        group.payloads.append(payload)
        group.parts.append((table, 0, None, None))


def _give_places(group: Group, request: LedgerRequest) -> None:
    """Places in every table of a unit, where all of them can be written to."""
    try:
        if request.line is not None:
            request.line.check(request.number)
        lives = [_writable(known) for known, _ in request.parts]
    except LakelogError as error:
        request.break_line(error)
        raise
    for live, (_, rows) in zip(lives, request.parts, strict=True):
        tail = live.tails[0]
        base, tail.next = tail.next, tail.next + len(rows)
        group.tails[id(tail)] = tail
        run = group.ledger_runs.get(id(tail))
        if run is None:
            group.ledger_runs[id(tail)] = LedgerRun(live, base, list(rows), request.timestamp_ms)
        else:
            run.rows += rows


def _writable(known: KnownTable) -> Live:
    if known.live is None:
        raise TopicClosed(known.table.name, "its table is not open", "try again")
    check_writable(known.live)
    return known.live


def check_writable(live: Live) -> None:
    """Raise where no offset may be given out."""
    if live.deleted:
        raise UnknownTopic(live.name)
    if live.closed is not None:
        raise live.closed
    if not live.owned:
        raise TopicClosed(live.name, "its table has not been taken over", "try again")


def producer_row_of(live: Live, request: Request, stamp: ProducerStamp, ranges: Sequence[OffsetRange]) -> ProducerRow:
    return ProducerRow(
        stamp.producer_id,
        live.name,
        live.id,
        stamp.epoch,
        stamp.sequence,
        request.count,
        request.digest,
        request.partitions,
        tuple((given.partition, given.base_offset, given.count) for given in ranges),
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
    if Counter(assignment) != {partition: count for partition, _, count in row.ranges}:
        assignment = ()
    return Appended(row.offset_ranges(), tuple(assignment), row.timestamp_ms, duplicate=True)
