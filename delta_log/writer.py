"""The way of a record from a request to an acknowledgement: wait for a turn, be given offsets, be journaled.

Whoever finds nobody at work takes the lead: it gives offsets to everything that waits, writes it as one group with
one sync, answers all, and hands the lead to the first who came meanwhile. So a lone caller pays one write and one
sync and no change of thread, and a crowd shares them. One group is under way at a time: while it is not durable its
offsets are only tentative, and are given out again if it fails.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import msgspec

from delta_log.errors import Closed, LakelogError, OutcomeUnknown, Overloaded, StorageRefused, TopicClosed, UnknownTopic
from delta_log.frames import DECISION, PRODUCERS, Frame, Place, checksum
from delta_log.journal import Journal
from delta_log.live import PRODUCERS_TABLE, Live, PendingGroup, producer_payload
from delta_log.producers import ProducerRow, Producers, Repeat, Undo
from delta_log.request import Part, Request
from delta_log.rows import Run
from delta_log.tail import ROW_OVERHEAD, Chunk, Tail
from delta_log.types import Appended, OffsetRange, ProducerStamp

_GROUP_BYTES: Final = 8 * 1024 * 1024
_GROUP_UNITS: Final = 4096
_log = logging.getLogger(__name__)


class Limits(msgspec.Struct, frozen=True):
    """Bounds on what is journaled and not yet in the tables; rows beyond `memory_bytes` stay in the journal alone."""

    memory_bytes: int = 256 * 1024 * 1024
    topic_bytes: int = 256 * 1024 * 1024
    total_bytes: int = 1024 * 1024 * 1024


class Turn(Protocol):
    """Somebody in the queue."""

    def lead(self) -> None:
        """It is your turn to lead."""
        ...


class Unit:
    """One request in the queue. A subclass says how its owner is told."""

    __slots__ = ("error", "live", "request", "result")

    def __init__(self, live: Live, request: Request) -> None:
        self.live = live
        self.request = request
        self.result: Appended | None = None
        self.error: BaseException | None = None

    def lead(self) -> None:
        raise NotImplementedError

    def done(self) -> None:
        """`result` or `error` is set."""
        raise NotImplementedError


class ThreadUnit(Unit):
    """Of a thread that waits for it."""

    __slots__ = ("_gate", "leads")

    def __init__(self, live: Live, request: Request) -> None:
        super().__init__(live, request)
        self.leads = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def lead(self) -> None:
        self.leads = True
        self._gate.release()

    def done(self) -> None:
        if not self.leads:
            self._gate.release()

    def wait(self) -> None:
        self._gate.acquire()

    def answer(self) -> Appended:
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise OutcomeUnknown("the request", "it was never answered")
        return self.result


class AloneTurn:
    """Of a thread that wants no group beside it."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()

    def lead(self) -> None:
        self._gate.release()

    def wait(self) -> None:
        self._gate.acquire()


class Follower(Protocol):
    """Who makes the tables follow the journal."""

    def notice(self, live: Live) -> None: ...


class Group:
    """A group on its way: what it writes, and what to do once it is durable."""

    __slots__ = ("frames", "parts", "payloads", "pending", "tails", "undo", "units")

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        self.frames: list[Frame] = []
        self.payloads: list[bytes] = []
        self.parts: list[tuple[Live, int, Part | None, ProducerStamp | None]] = []
        self.tails: dict[int, Tail] = {}
        self.undo: list[Undo] = []


class Writer:
    """The queue and the leader's work. `fatal` ends it for good: we are no longer the owner, or closed."""

    def __init__(self, journal: Journal, epoch: int, follower: Follower, limits: Limits) -> None:
        self.journal = journal
        self.epoch = epoch
        self.producers = Producers()
        self.producer_table: Live | None = None
        self.limits = limits
        self.fatal: LakelogError | None = None
        self.untabled = 0
        #: what must be in which table before a segment can go
        self.segments: dict[tuple[int, int], dict[Tail, int]] = {}
        #: segments that hold frames of no table
        self.aside: set[tuple[int, int]] = set()
        #: where an event loop lets the journal wait for the disk
        self.syncing = ThreadPoolExecutor(1, thread_name_prefix="lakelog-sync")
        self._follower = follower
        self._mutex = threading.Lock()
        self._queue: deque[Turn] = deque()
        self._leading = False

    def append(self, live: Live, request: Request) -> Appended:
        """Store a request and return where; in the caller's own thread."""
        unit = ThreadUnit(live, request)
        if self.enter(unit):
            unit.leads = True
        else:
            unit.wait()
            if not unit.leads:
                return unit.answer()
        try:
            self.lead()
        finally:
            self.hand_over()
        return unit.answer()

    def alone(self, action: Callable[[], None]) -> None:
        """Run something with no group under way."""
        turn = AloneTurn()
        if not self.enter(turn):
            turn.wait()
        try:
            with self._mutex:
                self._queue.remove(turn)
            action()
        finally:
            self.hand_over()

    def enter(self, turn: Turn) -> bool:
        """Queue up; True when it falls to the caller to lead."""
        with self._mutex:
            self._queue.append(turn)
            if self._leading:
                return False
            self._leading = True
            return True

    def hand_over(self) -> None:
        """Pass the lead on to the first who waits."""
        with self._mutex:
            following = self._queue[0] if self._queue else None
            self._leading = following is not None
        if following is not None:
            following.lead()

    def lead(self) -> None:
        """Write one group of all that waits."""
        group = self.begin()
        if group.frames:
            try:
                places = self.journal.append(group.frames, group.payloads)
            except BaseException as error:  # noqa: BLE001 - every unit of the group must be told
                self.fail(group, error)
                return
        else:
            places = []
        self.finish(group, places)

    def begin(self) -> Group:
        """Take what waits and give it offsets, tentatively."""
        group = Group(self._take())
        for unit in group.units:
            try:
                self._sequence(group, unit)
            except LakelogError as error:
                unit.error = error
        return group

    def finish(self, group: Group, places: Sequence[Place]) -> None:
        """The group is durable: make it visible, answer, and let the tables follow."""
        pending: dict[Live, PendingGroup] = {}
        ends: dict[Tail, int] = {}
        written = zip(group.frames, group.payloads, places, group.parts, strict=True)
        for frame, payload, place, (live, index, part, stamp) in written:
            tail = live.tails[index]
            chunk = self._chunk(frame, place, part, stamp)
            chunk.payload = payload if part is None else None
            tail.add(chunk)
            ends[tail] = frame.next_offset
            owner = pending.setdefault(live, PendingGroup([]))
            owner.chunks.append((index, chunk))
            owner.size += chunk.size
        if places:
            segment = self.segments.setdefault((places[0].epoch, places[0].segment), {})
            segment.update(ends)
        for live, owned in pending.items():
            live.add_pending(owned)
            self.untabled += owned.size
        for tail, end in ends.items():
            for waiter in tail.advance(end):
                waiter.wake()
        for unit in group.units:
            unit.done()
        for live in pending:
            self._follower.notice(live)

    def fail(self, group: Group, error: BaseException) -> None:
        """The group is not durable: its offsets are free again, unless nothing may be written any more."""
        for tail in group.tails.values():
            tail.next = tail.end
        for undo in reversed(group.undo):
            self.producers.undo(undo)
        if not isinstance(error, LakelogError):
            self.fatal = StorageRefused("the journal, which failed in an unforeseen way,", repr(error))
        for unit in group.units:
            unit.error = unit.error or error
            unit.result = None
            unit.done()

    def check_room(self, live: Live, size: int) -> None:
        """Refuse before anything is stored when the tables are too far behind."""
        if live.untabled + size > self.limits.topic_bytes and live.untabled:
            raise Overloaded(f"the table of {live.name} is behind", live.untabled, self.limits.topic_bytes)
        if self.untabled + size > self.limits.total_bytes and self.untabled:
            raise Overloaded("the tables are behind", self.untabled, self.limits.total_bytes)

    def journal_decision(self, live: Live, what: dict[str, Any], now_ms: int) -> None:
        """Make a decision about a topic durable; only from within `alone`."""
        payload = msgspec.msgpack.encode(what)
        frame = Frame(DECISION, live.name, live.id, -1, 0, 0, self.epoch, len(payload), checksum(payload), now_ms)
        self.journal.append([frame], [payload])

    def freed(self, size: int) -> None:
        with self._mutex:
            self.untabled -= size

    def close(self, why: LakelogError | None = None) -> None:
        self.fatal = self.fatal or why or Closed()
        self.syncing.shutdown(wait=False)

    def _chunk(self, frame: Frame, place: Place, part: Part | None, stamp: ProducerStamp | None) -> Chunk:
        """What the tail holds of a frame that was just written."""
        size = frame.length + ROW_OVERHEAD * frame.count
        keep = part is not None and self.untabled < self.limits.memory_bytes
        run = Run(frame.base_offset, part.rows, stamp) if keep and part is not None else None
        return Chunk(frame.base_offset, frame.count, size, frame, place, run)

    def _take(self) -> list[Unit]:
        """What waits in front of the next one that wants to be alone, within bounds."""
        units: list[Unit] = []
        size = 0
        with self._mutex:
            while self._queue and len(units) < _GROUP_UNITS and size < _GROUP_BYTES:
                turn = self._queue[0]
                if not isinstance(turn, Unit):
                    break
                self._queue.popleft()
                units.append(turn)
                size += turn.request.size
        return units

    def _sequence(self, group: Group, unit: Unit) -> None:
        if self.fatal is not None:
            raise self.fatal
        live, request = unit.live, unit.request
        if live.deleted:
            raise UnknownTopic(live.name)
        if live.closed is not None:
            raise live.closed
        if not live.owned:
            raise TopicClosed(live.name, "its table has not been taken over", "try again")
        stamp = request.stamp
        if stamp is not None:
            decision = self.producers.decide(live.id, stamp, request.count, request.digest)
            if isinstance(decision, Repeat):
                unit.result = repeated(request, decision.row, live.partitions)
                return
        ranges: list[OffsetRange] = []
        for part in request.parts:
            tail = live.tails[part.partition]
            base, count = tail.next, len(part.rows)
            tail.next = base + count
            group.tails[id(tail)] = tail
            ranges.append(OffsetRange(part.partition, base, count))
            group.frames.append(
                Frame(
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
            )
            group.payloads.append(part.payload)
            group.parts.append((live, part.partition, part, stamp))
        if stamp is not None:
            self._remember(group, unit, stamp, ranges)
        unit.result = Appended(tuple(ranges), tuple(request.assignment), request.timestamp_ms)

    def _remember(self, group: Group, unit: Unit, stamp: ProducerStamp, ranges: Sequence[OffsetRange]) -> None:
        """Journal, in the same unit, that this producer's request is stored."""
        live, request, table = unit.live, unit.request, self.producer_table
        if table is None:
            raise TopicClosed(PRODUCERS_TABLE, "its table is not open", "try again")
        row = ProducerRow(
            stamp.producer_id,
            live.name,
            live.id,
            stamp.epoch,
            stamp.sequence,
            request.count,
            request.digest,
            live.partitions,
            tuple((given.partition, given.base_offset, given.count) for given in ranges),
            request.timestamp_ms,
        )
        group.undo.append(self.producers.replay(row))
        payload = producer_payload(row)
        tail = table.tails[0]
        base, tail.next = tail.next, tail.next + 1
        group.tails[id(tail)] = tail
        frame = Frame(
            PRODUCERS,
            table.name,
            table.id,
            0,
            base,
            1,
            self.epoch,
            len(payload),
            checksum(payload),
            row.timestamp_ms,
        )
        group.frames.append(frame)
        group.payloads.append(payload)
        group.parts.append((table, 0, None, None))


def repeated(request: Request, row: ProducerRow | None, partitions: int) -> Appended:
    """The first answer once more."""
    if row is None:
        return Appended((), (), request.timestamp_ms, duplicate=True)
    assignment = request.assignment
    if row.partitions != partitions and request.reassign is not None:
        assignment = request.reassign(row.partitions)
    return Appended(row.offset_ranges(), tuple(assignment), row.timestamp_ms, duplicate=True)
