"""The in-memory state of an open table, and how its rows are encoded."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec
import pyarrow as pa

from delta_log.delta.table import Table
from delta_log.model.errors import LakelogError
from delta_log.model.schema import FILE_SCHEMA, PRODUCERS_SCHEMA
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import OffsetRange
from delta_log.records.idempotence import ProducerRow, survivors
from delta_log.records.validation import Rules
from delta_log.topics.partition_state import (
    CHUNK_OVERHEAD,
    Chunk,
    PartitionState,
    PayloadReader,
    load_batches,
    payload_of,
)

PRODUCERS_TABLE = "__producers"


@dataclass(slots=True)
class TableWaiter:
    """A future that is resolved with the table's version once all of its ranges are in the table."""

    ranges: Sequence[OffsetRange]
    future: Future[int]


@dataclass(slots=True)
class PendingGroup:
    """A journal group's chunks for one table: all of them go into one commit."""

    chunks: list[tuple[int, Chunk]]
    #: bytes of the rows
    size: int = 0
    #: monotonic time at which it became durable, or was recovered by a start
    since: float = field(default_factory=time.monotonic)

    @property
    def held(self) -> int:
        """Estimated memory that it takes while pending."""
        return self.size + CHUNK_OVERHEAD * len(self.chunks)


class RowFormat(Protocol):
    """Converts chunks to the rows of a table."""

    schema: pa.Schema
    order: str
    keep_in_memory: bool
    partitioned: bool

    def batches(self, chunks: Sequence[Chunk], journal: PayloadReader) -> list[pa.RecordBatch]: ...


class TopicRows:
    """Row format of a topic: records."""

    schema = FILE_SCHEMA
    order = "offset"
    keep_in_memory = True
    partitioned = True

    def batches(self, chunks: Sequence[Chunk], journal: PayloadReader) -> list[pa.RecordBatch]:
        return load_batches(chunks, journal)


class ProducerRows:
    """Row format of idempotent producers' requests: only those still remembered reach the table."""

    schema = PRODUCERS_SCHEMA
    order = "commit_seq"
    keep_in_memory = False
    partitioned = False

    def batches(self, chunks: Sequence[Chunk], journal: PayloadReader) -> list[pa.RecordBatch]:
        found = [(chunk.base_offset, stored_rows(chunk, journal)) for chunk in chunks if not chunk.lost]
        numbered = [(base + index, row) for base, rows in found for index, row in enumerate(rows)]
        if not numbered:
            return []
        places = {id(row): place for place, row in numbered}
        kept = survivors([row for _, row in numbered])
        return [producer_batch([(places[id(row)], row) for row in kept])]


_row_decoder = msgspec.msgpack.Decoder(ProducerRow)
_rows_decoder = msgspec.msgpack.Decoder(list[ProducerRow])


def stored_rows(chunk: Chunk, journal: PayloadReader) -> list[ProducerRow]:
    """Decode the producer rows of a frame: of one request, or of all in a group."""
    payload = payload_of(chunk, journal)
    return [_row_decoder.decode(payload)] if chunk.count == 1 else _rows_decoder.decode(payload)


_SAME_NAMES = tuple(name for name in PRODUCERS_SCHEMA.names if name not in ("commit_seq", "ranges", "timestamp"))


def producer_batch(rows: Sequence[tuple[int, ProducerRow]]) -> pa.RecordBatch:
    body: list[dict[str, Any]] = []
    for seq, row in rows:
        given: dict[str, Any] = {name: getattr(row, name) for name in _SAME_NAMES}
        given["commit_seq"], given["timestamp"] = seq, row.timestamp_ms * 1000
        given["ranges"] = [dict(zip(("partition", "base_offset", "count"), r, strict=True)) for r in row.ranges]
        body.append(given)
    return pa.RecordBatch.from_pylist(body, schema=PRODUCERS_SCHEMA)


def producer_rows(table: pa.Table) -> list[tuple[int, ProducerRow]]:
    """The rows of the producers' table, in the order in which they were stored."""
    found: list[tuple[int, ProducerRow]] = []
    for body in table.sort_by("commit_seq").to_pylist():
        ranges = tuple((r["partition"], r["base_offset"], r["count"]) for r in body["ranges"])
        timestamp = int(body["timestamp"].timestamp()) * 1000 + body["timestamp"].microsecond // 1000
        row = ProducerRow(**{name: body[name] for name in _SAME_NAMES}, ranges=ranges, timestamp_ms=timestamp)
        found.append((body["commit_seq"], row))
    return found


def producer_payload(rows: list[ProducerRow]) -> bytes:
    return msgspec.msgpack.encode(rows[0] if len(rows) == 1 else rows)


@dataclass(eq=False)
class TopicState:
    """State of one table. Offsets are changed by the queue's leader; this lock guards `pending` and its sizes."""

    name: str
    id: str
    table: Table
    rows: RowFormat
    tails: list[PartitionState]
    config: TopicConfig
    rules: Rules
    owned: bool = False
    closed: LakelogError | None = None
    deleted: bool = False
    next_null: int = 0
    #: `untabled`: memory of `pending`; `waiting`: bytes of its rows alone, which the next commits write
    untabled: int = 0
    waiting: int = 0
    recovered_left: int = 0
    last_commit: float = float("-inf")
    due: float | None = None
    committing: threading.Lock = field(default_factory=threading.Lock)
    #: acquired after `committing`, never before it
    folding: threading.RLock = field(default_factory=threading.RLock)
    #: number of files when the last fold ended
    folded_files: int = 0
    last_follow: float = float("-inf")
    #: the version applied to the tails; after a conflict the table's snapshot may be ahead of it
    followed: int = -1
    lock: threading.Lock = field(default_factory=threading.Lock)
    pending: deque[PendingGroup] = field(default_factory=deque[PendingGroup])
    in_doubt: int = 0
    #: keeps the journal's segments that have a decision about this topic, until it is carried out
    decision: PartitionState = field(default_factory=lambda: PartitionState(0, 0))
    table_waiters: list[TableWaiter] = field(default_factory=list[TableWaiter])

    @property
    def partitions(self) -> int:
        return len(self.tails)

    @property
    def internal(self) -> bool:
        """True for an internal table, which is no topic."""
        return not self.rows.partitioned

    @property
    def is_dirty(self) -> bool:
        return bool(self.pending) or (not self.owned and bool(self.table_waiters))

    def fail_waiters(self, why: LakelogError) -> None:
        """Fail all waiters for table commits: nothing more will reach the table."""
        with self.lock:
            waiting, self.table_waiters = self.table_waiters, []
        for waiter in waiting:
            if waiter.future.set_running_or_notify_cancel():
                waiter.future.set_exception(why)

    def close(self, why: LakelogError) -> None:
        """Close a topic that is damaged or stuck for good; other topics continue."""
        with self.lock:
            self.closed = why
        self.fail_waiters(why)

    def add_pending(self, group: PendingGroup) -> int:
        """Add a group; returns the memory that it takes."""
        held = group.held
        with self.lock:
            self.pending.append(group)
            self.untabled += held
            self.waiting += group.size
        return held

    def peek_pending(self, limit: int) -> list[PendingGroup]:
        """The oldest groups, up to about `limit` bytes; exactly the previous ones while their commit is in doubt."""
        with self.lock:
            if self.in_doubt:
                return [self.pending[index] for index in range(self.in_doubt)]
            taken: list[PendingGroup] = []
            size = 0
            for group in self.pending:
                if taken and size + group.size > limit:
                    break
                taken.append(group)
                size += group.size
            return taken

    def drop_pending(self, ends: Sequence[int]) -> int:
        """Drop pending chunks that are in the table, up to the end of each partition; returns the bytes freed.

        Only for a table that is not taken over yet: all its pending chunks were journaled by former owners.
        """
        with self.lock:
            before = self.untabled
            for group in self.pending:
                group.chunks = [(index, chunk) for index, chunk in group.chunks if chunk.next_offset > ends[index]]
                group.size = sum(chunk.size for _, chunk in group.chunks)
            self.pending = deque(group for group in self.pending if group.chunks)
            self.recovered_left = len(self.pending)
            self.in_doubt = 0
            self._count_again()
            return before - self.untabled

    def pop_pending(self, count: int) -> int:
        with self.lock:
            before = self.untabled
            for _ in range(count):
                group = self.pending.popleft()
                self.untabled -= group.held
                self.waiting -= group.size
            self.in_doubt = 0
            return before - self.untabled

    def drop_all_pending(self) -> None:
        """Drop all pending groups, which will not reach the table."""
        with self.lock:
            self.pending.clear()
            self._count_again()
            self.recovered_left = 0

    def _count_again(self) -> None:
        self.untabled = sum(group.held for group in self.pending)
        self.waiting = sum(group.size for group in self.pending)
