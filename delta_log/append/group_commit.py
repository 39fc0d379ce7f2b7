"""Group commit, from a request to its acknowledgement: wait for the lead, assign offsets, journal.

A request that finds the queue idle becomes the leader: it assigns offsets to all waiting requests, writes them as one
group with one sync, answers all, and passes the lead to the first that arrived meanwhile. So a lone caller pays one
write and one sync without a thread switch, and concurrent callers share them. One group is in flight at a time: its
offsets are tentative until it is durable, and are assigned again if it fails.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import msgspec

from delta_log.append.append_unit import LedgerRequest
from delta_log.append.commit_queue import CommitQueue, ExclusiveSlot, ThreadUnit, Turn
from delta_log.append.early_requests import EarlyRequests
from delta_log.append.sequencer import Group, Sequencer
from delta_log.journal import Journal
from delta_log.journal.group_format import Frame, Payload, Place, checksum
from delta_log.model.errors import (
    Closed,
    LakelogError,
    NotOwner,
    OutcomeUnknown,
    Overloaded,
    ProducerError,
    StorageRefused,
    TransactionFenced,
)
from delta_log.model.types import Appended, ProducerStamp
from delta_log.records.epoch_bump import EpochBump
from delta_log.records.idempotence import Producers
from delta_log.records.payload_kinds import DECISION
from delta_log.records.request import Part, Request, SpilledRows
from delta_log.records.row_codec import Run
from delta_log.runtime.disk_room import DiskRoom
from delta_log.runtime.meters import JournalMeter
from delta_log.topics.partition_state import Chunk, PartitionState, keeps_bytes, row_bytes, wake_all
from delta_log.topics.topic_state import PendingGroup, TopicState

_log = logging.getLogger(__name__)


class Limits(msgspec.Struct, frozen=True):
    """Bounds on data that is journaled and not yet in the tables; rows beyond `memory_bytes` stay in the journal alone.

    All count memory, including the overhead of each frame, whose place in the journal is kept until it is in a table.
    """

    memory_bytes: int = 256 * 1024 * 1024
    topic_bytes: int = 256 * 1024 * 1024
    total_bytes: int = 1024 * 1024 * 1024


class Follower(Protocol):
    """Brings the tables up to the journal."""

    def notice(self, live: TopicState) -> None: ...


class Writer:
    """The leader's work. `fatal` ends it for good: ownership is lost, the log is closed, or the writer broke down."""

    def __init__(
        self, journal: Journal, epoch: int, follower: Follower, limits: Limits, room: DiskRoom | None = None
    ) -> None:
        self.journal = journal
        self.room = room or DiskRoom()
        self.sequencer = Sequencer(epoch)
        self.limits = limits
        self.fatal: LakelogError | None = None
        self.untabled = 0
        #: number of groups stored; each settles any doubt about earlier ones
        self.writes = 0
        #: per segment, the offset that each partition must have reached in its table before the segment can be removed
        self.segments: dict[tuple[int, int], dict[PartitionState, int]] = {}
        #: segments that hold frames of no table
        self.aside: set[tuple[int, int]] = set()
        #: where the groups of event loops are written
        self.syncing = ThreadPoolExecutor(1, thread_name_prefix="lakelog-sync")
        self.turns = CommitQueue()
        self.parking = EarlyRequests(self.producers)
        self.meter = JournalMeter()
        self._follower = follower
        self._mutex = threading.Lock()

    @property
    def epoch(self) -> int:
        return self.sequencer.epoch

    @property
    def producers(self) -> Producers:
        return self.sequencer.producers

    def append(self, live: TopicState | None, request: Request | LedgerRequest | EpochBump) -> Appended:
        """Store a request in the caller's thread, and return its offsets."""
        unit = ThreadUnit(live, request)
        with self._given_up_if_interrupted(unit):
            unit.leads = self.turns.enter(unit)
            if not unit.leads:
                unit.wait()
            if unit.leads:
                self.lead()
                self.turns.hand_over()
        return unit.answer()

    def alone(self, action: Callable[[], None]) -> None:
        """Run the action with no group under way."""
        turn = ExclusiveSlot()
        with self._given_up_if_interrupted(turn):
            if not self.turns.enter(turn):
                turn.wait()
            self.turns.leave(turn)
            action()
            self.turns.hand_over()

    def lead_once(self) -> None:
        """Write one group, and pass the lead on."""
        try:
            self.lead()
        finally:
            self.turns.hand_over()

    def lead(self) -> None:
        """Write the waiting requests as one group."""
        self.journal.pace()
        group = Group(self.turns.take())
        try:
            places = self._write(group)
        except Exception as error:  # noqa: BLE001 - every unit of the group must be answered
            self.fail(group, error)
        except BaseException as error:
            self.fail(group, error)
            raise
        else:
            self.finish(group, places)

    def _write(self, group: Group) -> Sequence[Place]:
        """Assign tentative offsets, and make the group durable."""
        if self.fatal is None:
            self.sequencer.sequence(group)
            return self.write_journal(group.frames, group.payloads, len(group.units)) if group.frames else []
        for unit in group.units:
            unit.error = self.fatal
        return []

    def write_journal(self, frames: Sequence[Frame], payloads: Sequence[Payload], requests: int) -> Sequence[Place]:
        """Make frames durable, and measure it; only the leader calls it."""
        began = time.perf_counter()
        try:
            places = self.journal.append(frames, payloads)
        except BaseException as error:
            sure = isinstance(error, LakelogError) and error.outcome == LakelogError.outcome
            self.sequencer.unsettled = self.sequencer.unsettled or not sure
            self.meter.failed(str(error), time.monotonic())
            raise
        self.sequencer.unsettled = False
        self.writes += 1
        self.meter.wrote(time.perf_counter() - began, requests)
        return places

    def finish(self, group: Group, places: Sequence[Place]) -> None:
        """Make a durable group visible, answer its requests, and notify the follower."""
        try:
            pending = self._show(group, places)
        except Exception as error:  # noqa: BLE001 - waiting callers must be answered
            _log.exception("what is durable could not be shown; it will be after a restart")
            self._break_down(group, error)
            pending = []
        self._answer(group)
        self.parking.look_again([row.producer_id for row in group.rows])
        self.parking.look_again(group.bumped)
        for live in pending:
            self._follower.notice(live)

    def _show(self, group: Group, places: Sequence[Place]) -> list[TopicState]:
        """Move the high watermarks; returns the topics with pending table commits."""
        pending: dict[TopicState, PendingGroup] = {}
        ends: dict[PartitionState, int] = {}
        written = zip(group.frames, group.payloads, places, group.parts, strict=True)
        for frame, payload, place, (live, index, part, stamp) in written:
            tail = live.tails[index]
            chunk = self._chunk(frame, place, part, stamp, payload)
            tail.add(chunk)
            ends[tail] = frame.next_offset
            owner = pending.setdefault(live, PendingGroup([]))
            owner.chunks.append((index, chunk))
            owner.size += chunk.size
        if places:
            segment = self.segments.setdefault((places[0].epoch, places[0].segment), {})
            segment.update(ends)
        for live, owned in pending.items():
            self.freed(-live.add_pending(owned))
        for tail, end in ends.items():
            wake_all(tail.advance(end))
        return list(pending)

    def _break_down(self, group: Group, error: Exception) -> None:
        """Stop writing for good, as the state of this process is unknown; unsettled units get `OutcomeUnknown`."""
        unknown = self._lose_track(error)
        for unit in group.units:
            if unit not in group.settled and unit.error is None:
                unit.result, unit.error = None, unknown

    def _lose_track(self, error: BaseException) -> OutcomeUnknown:
        """Refuse writes until a restart; returns the error for the requests in flight."""
        self.fatal = StorageRefused("the journal, which failed in an unforeseen way,", repr(error))
        return OutcomeUnknown("the request", repr(error))

    def fail(self, group: Group, error: BaseException) -> None:
        """Answer a group that is not durable with `error`, and take its offsets back.

        A unit that was refused by sequence or epoch gets `error`, too: the refusal may rest on a predecessor in this
        group, which is not stored after all.
        """
        self.sequencer.take_back(group)
        if isinstance(error, NotOwner):
            self.fatal = self.fatal or error
        if not isinstance(error, LakelogError):
            error = self._lose_track(error)
        for unit in group.units:
            if unit not in group.settled:
                final = unit.error is not None and not isinstance(unit.error, ProducerError | TransactionFenced)
                unit.error = unit.error if final else error
                unit.result = None
        self._answer(group)

    def check_room(self, live: TopicState, size: int) -> None:
        """Refuse a request up front if the disk is full or the tables are too far behind."""
        if self.room.full:
            self._check_disk(live)
        if live.untabled + size > self.limits.topic_bytes and live.untabled:
            raise Overloaded(f"the table of {live.name} is behind", live.untabled, self.limits.topic_bytes)
        if self.untabled + size > self.limits.total_bytes and self.untabled:
            raise Overloaded("the tables are behind", self.untabled, self.limits.total_bytes)

    def _check_disk(self, live: TopicState) -> None:
        """Allow small writes to internal tables on a full disk: freeing room may need them."""
        if live.internal:
            self.room.check_small(live.name)
        else:
            self.room.check_records()

    def journal_decision(self, live: TopicState, what: dict[str, Any], now_ms: int) -> None:
        """Journal a decision about a topic; only from within `alone`."""
        payload = msgspec.msgpack.encode(what)
        frame = Frame(DECISION, live.name, live.id, -1, 0, 0, self.epoch, len(payload), checksum(payload), now_ms)
        places = self.write_journal([frame], [payload], 1)
        live.decision.log_end_offset += 1
        self.segments.setdefault((places[0].epoch, places[0].segment), {})[live.decision] = live.decision.log_end_offset

    def freed(self, size: int) -> None:
        with self._mutex:
            self.untabled -= size

    def close(self, why: LakelogError | None = None) -> None:
        self.fatal = self.fatal or why or Closed()
        self.syncing.shutdown(wait=False)
        self.parking.close()

    @contextmanager
    def _given_up_if_interrupted(self, turn: Turn) -> Generator[None]:
        """Release the queue entry and the lead if the caller is interrupted at any point."""
        try:
            yield
        except BaseException:
            self.turns.give_up(turn)
            raise

    def _answer(self, group: Group) -> None:
        for unit in group.units:
            unit.done()
        for unit in group.units:
            unit.deliver()

    def _chunk(
        self, frame: Frame, place: Place, part: Part | None, stamp: ProducerStamp | None, payload: Payload
    ) -> Chunk:
        """The in-memory chunk of a frame just written; without rows if they were spilled or memory is full."""
        chunk = Chunk(frame.base_offset, frame.count, row_bytes(frame), frame, place)
        if self.untabled < self.limits.memory_bytes and isinstance(payload, bytes):
            if part is None or isinstance(part.rows, SpilledRows) or keeps_bytes(frame, part.rows):
                chunk.payload = payload
            else:
                chunk.run = Run(frame.base_offset, part.rows, stamp)
        return chunk
