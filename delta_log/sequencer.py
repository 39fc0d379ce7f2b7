"""Giving out offsets. Decides, and changes nothing but the next offset of the tails that it gives them from.

What is given out is tentative until the group is durable: `take_back` undoes all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from delta_log.errors import LakelogError, TopicClosed, UnknownTopic
from delta_log.frames import PRODUCERS, Frame, checksum
from delta_log.live import PRODUCERS_TABLE, Live, producer_payload
from delta_log.producers import ProducerRow, Producers, Repeat, Undo
from delta_log.request_parts import Part, Request
from delta_log.tail import Tail
from delta_log.turns import Unit
from delta_log.types import Appended, OffsetRange, ProducerStamp


class Group:
    """A group on its way: what it writes, and what to do once it is durable."""

    __slots__ = ("frames", "parts", "payloads", "rows", "settled", "tails", "undo", "units")

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        self.frames: list[Frame] = []
        self.payloads: list[bytes] = []
        self.parts: list[tuple[Live, int, Part | None, ProducerStamp | None]] = []
        self.tails: dict[int, Tail] = {}
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

    def take_back(self, group: Group) -> None:
        """The group is not durable: its offsets are free again."""
        for tail in group.tails.values():
            tail.next = tail.end
        for undo in reversed(group.undo):
            self.producers.undo(undo)

    def _sequence(self, group: Group, unit: Unit) -> None:
        live, request = unit.live, unit.request
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
            row = producer_row_of(live, request, stamp, ranges)
            group.undo.append(self.producers.replay(row))
            group.rows.append(row)
            self._remember(group, memory, row)
        unit.result = Appended(tuple(ranges), tuple(request.assignment), request.timestamp_ms)

    def _producer_memory(self) -> Live:
        table = self.producer_table
        if table is None:
            raise TopicClosed(PRODUCERS_TABLE, "its table is not open", "try again")
        check_writable(table)
        return table

    def _give_offsets(self, group: Group, live: Live, request: Request, part: Part) -> OffsetRange:
        tail, count, stamp = live.tails[part.partition], len(part.rows), request.stamp
        base, tail.next = tail.next, tail.next + count
        frame = Frame(
            part.kind,
            live.name,
            live.id,
            part.partition,
            base,
            count,
            self.epoch,
            len(part.payload),
            part.crc,
            request.timestamp_ms,
            None if stamp is None else (stamp.producer_id, stamp.epoch),
        )
        group.tails[id(tail)] = tail
        group.frames.append(frame)
        group.payloads.append(part.payload)
        group.parts.append((live, part.partition, part, stamp))
        return OffsetRange(part.partition, base, count)

    def _remember(self, group: Group, table: Live, row: ProducerRow) -> None:
        """Journal, in the same unit, that this producer's request is stored."""
        payload = producer_payload(row)
        tail = table.tails[0]
        base, tail.next = tail.next, tail.next + 1
        size, crc = len(payload), checksum(payload)
        group.tails[id(tail)] = tail
        group.frames.append(Frame(PRODUCERS, table.name, table.id, 0, base, 1, self.epoch, size, crc, row.timestamp_ms))
        group.payloads.append(payload)
        group.parts.append((table, 0, None, None))


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
