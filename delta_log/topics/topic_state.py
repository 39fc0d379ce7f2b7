"""A table that is being appended to, as the running process knows it."""

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
    """Resolved with the table's version once all of its ranges are in the table."""

    ranges: Sequence[OffsetRange]
    future: Future[int]


@dataclass(slots=True)
class PendingGroup:
    """What one journal group brought to one table: all of it goes into one commit."""

    chunks: list[tuple[int, Chunk]]
    #: of the rows
    size: int = 0
    #: by the monotonic clock: when it became durable, or was found again by a start
    since: float = field(default_factory=time.monotonic)

    @property
    def held(self) -> int:
        """About what it takes of memory while it waits."""
        return self.size + CHUNK_OVERHEAD * len(self.chunks)


class RowFormat(Protocol):
    """How chunks become rows of a table."""

    schema: pa.Schema
    order: str
    keep_in_memory: bool
    partitioned: bool

    def batches(self, chunks: Sequence[Chunk], journal: PayloadReader) -> list[pa.RecordBatch]: ...


class TopicRows:
    """Records."""

    schema = FILE_SCHEMA
    order = "offset"
    keep_in_memory = True
    partitioned = True

    def batches(self, chunks: Sequence[Chunk], journal: PayloadReader) -> list[pa.RecordBatch]:
        return load_batches(chunks, journal)


class ProducerRows:
    """Requests of idempotent producers: only those still remembered reach the table."""

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
    """What a frame says of producers: of one request, or of all in a group."""
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
    """Offsets belong to the writer's turn; `pending`, `untabled` and `waiting` to this lock."""

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
    #: what `pending` takes of memory, and the rows of it alone, which is what a commit brings to the table
    untabled: int = 0
    waiting: int = 0
    recovered_left: int = 0
    last_commit: float = float("-inf")
    due: float | None = None
    committing: threading.Lock = field(default_factory=threading.Lock)
    #: taken behind `committing`, never before it
    folding: threading.RLock = field(default_factory=threading.RLock)
    #: how many files there were when the last fold ended
    folded_files: int = 0
    last_follow: float = float("-inf")
    #: the version that the tails know of, which a conflict of ours may have led the table beyond
    followed: int = -1
    lock: threading.Lock = field(default_factory=threading.Lock)
    pending: deque[PendingGroup] = field(default_factory=deque[PendingGroup])
    in_doubt: int = 0
    #: holds the journal's segments with a decision about this topic until it is carried out
    decision: PartitionState = field(default_factory=lambda: PartitionState(0, 0))
    table_waiters: list[TableWaiter] = field(default_factory=list[TableWaiter])

    @property
    def partitions(self) -> int:
        return len(self.tails)

    @property
    def internal(self) -> bool:
        """One of the server's own tables, which is no topic."""
        return not self.rows.partitioned

    @property
    def is_dirty(self) -> bool:
        return bool(self.pending) or (not self.owned and bool(self.table_waiters))

    def fail_waiters(self, why: LakelogError) -> None:
        """Nothing more will reach the table: whoever waits for it is told."""
        with self.lock:
            waiting, self.table_waiters = self.table_waiters, []
        for waiter in waiting:
            if waiter.future.set_running_or_notify_cancel():
                waiter.future.set_exception(why)

    def close(self, why: LakelogError) -> None:
        """This topic is damaged or stuck for good; the others go on."""
        with self.lock:
            self.closed = why
        self.fail_waiters(why)

    def add_pending(self, group: PendingGroup) -> int:
        """Returns how many bytes that takes."""
        held = group.held
        with self.lock:
            self.pending.append(group)
            self.untabled += held
            self.waiting += group.size
        return held

    def peek_pending(self, limit: int) -> list[PendingGroup]:
        """Whole groups up to about `limit` bytes; exactly those of last time while its outcome is in doubt."""
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
        """Forget what the table holds already, up to the end of each partition; returns how many bytes that frees.

        Of a table that is not ours yet: everything that waits was journaled by whoever owned it before.
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
        """Nothing of it will reach the table."""
        with self.lock:
            self.pending.clear()
            self._count_again()
            self.recovered_left = 0

    def _count_again(self) -> None:
        self.untabled = sum(group.held for group in self.pending)
        self.waiting = sum(group.size for group in self.pending)
