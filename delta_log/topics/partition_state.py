"""The state of a partition: its offsets (assigned, durable, in the table) and its newest rows.

    log start ≤ … table offset ≤ high watermark ≤ log end offset

Rows stay in memory until they are in the table, and after that as long as the cache has room. A chunk whose rows were
dropped before they reached the table is read from the journal.
"""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from delta_log.journal.group_format import Frame, Place, checksum
from delta_log.model.errors import Corruption
from delta_log.model.types import ProducerStamp
from delta_log.records.payload_kinds import ARROW, ROWS
from delta_log.records.request import LARGE
from delta_log.records.row_codec import RowBlock, Rows, Run, decode_arrow, decode_block, to_batches

_log = logging.getLogger(__name__)

#: Overhead of a row beside its bytes when it is held as Python objects.
_ROW_OVERHEAD: Final = 100
#: Overhead of a chunk beside its rows, measured: 680 for itself, its frame, its place and the lists that hold it, which
#: remain even if its rows are in the journal alone; the rest is its columns.
CHUNK_OVERHEAD: Final = 950
#: Overhead of a batch beside its bytes, mostly Arrow objects for its columns: thirty times the bytes of a single row.
_BATCH_OVERHEAD: Final = 6 * 1024
#: Bound on the rows converted to Arrow together: more gain nothing, and are many objects at a time.
_ROWS_AT_ONCE: Final = 4096


def keeps_bytes(frame: Frame, rows: Rows) -> bool:
    """True if rows are kept as the bytes of their frame: a thousand objects cost more to hold than to decode again.

    Headers are many objects each: decoded, they would take up to six times the memory counted for them.
    """
    return frame.kind == ROWS and (frame.count >= LARGE or (isinstance(rows, RowBlock) and rows.headers is not None))


def row_bytes(frame: Frame) -> int:
    """Estimated memory of a frame's rows."""
    plain = frame.kind == ARROW or (frame.kind == ROWS and frame.count >= LARGE)
    return frame.length if plain else frame.length + _ROW_OVERHEAD * frame.count


def kept_bytes(chunk: Chunk) -> int:
    """Estimated memory of a chunk that is kept in Arrow."""
    return chunk.size + _BATCH_OVERHEAD


class PayloadReader(Protocol):
    def read(self, place: Place) -> bytes: ...


@dataclass(slots=True)
class Chunk:
    """A run of offsets: held as rows, as its frame's bytes, as Arrow, or only as a place in the journal."""

    base_offset: int
    count: int
    size: int
    frame: Frame
    place: Place
    run: Run | None = None
    batch: pa.RecordBatch | None = None
    payload: bytes | None = None
    #: its records are unreadable; only the offsets are kept, so that they are never assigned again
    lost: bool = False

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.count


@dataclass(slots=True)
class Waiter:
    """A callback, called once: when the high watermark passes `offset` or the partition is removed."""

    offset: int
    wake: Callable[[], None]


def wake_all(waiters: Sequence[Waiter]) -> None:
    """Wake every waiter, even if one fails because its event loop is gone."""
    for waiter in waiters:
        try:
            waiter.wake()
        except Exception as error:  # noqa: BLE001 - it is the waiter's own
            _log.warning("somebody who waited for records could not be woken: %r", error)


class PartitionState:
    """State of one partition. Offsets are changed by the queue's leader; chunks under this lock."""

    def __init__(self, start: int, end: int) -> None:
        self.log_start_offset = start
        self.table_offset = end
        self.high_watermark = end
        self.log_end_offset = end
        self.lock = threading.Lock()
        self.waiters: list[Waiter] = []
        self._chunks: list[Chunk] = []
        self._bases: list[int] = []

    @property
    def first(self) -> int:
        """The offset from which everything durable is in memory or in the journal."""
        with self.lock:
            return self._bases[0] if self._bases else self.table_offset

    def add(self, chunk: Chunk) -> None:
        with self.lock:
            self._chunks.append(chunk)
            self._bases.append(chunk.base_offset)

    def advance(self, end: int) -> list[Waiter]:
        """Move the high watermark; returns the waiters to wake."""
        with self.lock:
            self.high_watermark = end
            if not self.waiters:
                return []
            woken = [waiter for waiter in self.waiters if waiter.offset < end]
            self.waiters = [waiter for waiter in self.waiters if waiter.offset >= end]
            return woken

    def wait(self, waiter: Waiter) -> bool:
        """Register a waiter; False if the high watermark has passed its offset already."""
        with self.lock:
            if waiter.offset < self.high_watermark:
                return False
            self.waiters.append(waiter)
            return True

    def stop_waiting(self, waiter: Waiter) -> None:
        with self.lock:
            if waiter in self.waiters:
                self.waiters.remove(waiter)

    def stop_all_waiting(self) -> list[Waiter]:
        """Remove and return all waiters: no more records will arrive."""
        with self.lock:
            woken, self.waiters = self.waiters, []
            return woken

    def chunks_from(self, offset: int, count: int) -> list[Chunk]:
        """The chunks with the `count` offsets from `offset` on, below the high watermark."""
        with self.lock:
            first = max(0, bisect_right(self._bases, offset) - 1)
            last = bisect_right(self._bases, min(offset + count, self.high_watermark) - 1)
            return [chunk for chunk in self._chunks[first:last] if chunk.next_offset > offset]

    def settle(self, chunks: Sequence[Chunk], batch: pa.RecordBatch | None, table_end: int) -> Chunk | None:
        """Remove chunks that reached the table; `batch`, if given, replaces them as one chunk in Arrow."""
        with self.lock:
            self.table_offset = max(self.table_offset, table_end)
            if not chunks:
                return None
            first = chunks[0]
            low = bisect_left(self._bases, first.base_offset)
            high = bisect_right(self._bases, chunks[-1].base_offset)
            gone = {id(chunk) for chunk in chunks}
            at = next((index for index, chunk in enumerate(self._chunks[low:high]) if id(chunk) in gone), None)
            kept = [chunk for chunk in self._chunks[low:high] if id(chunk) not in gone]
            merged = None
            if batch is not None and at is not None:
                span = chunks[-1].next_offset - first.base_offset
                merged = Chunk(first.base_offset, span, batch.nbytes, first.frame, first.place, None, batch)
                kept.insert(at, merged)
            self._chunks[low:high], self._bases[low:high] = kept, [chunk.base_offset for chunk in kept]
            return merged

    def drop_below(self, offset: int) -> None:
        """Drop chunks that are in the table and end at or below `offset`."""
        with self.lock:
            keep = 0
            while keep < len(self._chunks) and self._chunks[keep].next_offset <= min(offset, self.table_offset):
                keep += 1
            del self._chunks[:keep], self._bases[:keep]

    def clear(self) -> list[Waiter]:
        """Drop all chunks of a partition that is removed; returns its waiters."""
        with self.lock:
            self._chunks, self._bases = [], []
            woken, self.waiters = self.waiters, []
            return woken


def load_batches(chunks: Sequence[Chunk], journal: PayloadReader) -> list[pa.RecordBatch]:
    """The rows of chunks as batches of the file schema, in order."""
    batches: list[pa.RecordBatch] = []
    runs: list[Run] = []
    rows = 0
    for chunk in chunks:
        if chunk.lost:
            continue
        if runs and (chunk.batch is not None or rows >= _ROWS_AT_ONCE):
            batches += to_batches(runs)
            runs, rows = [], 0
        if chunk.batch is None:
            runs.append(load_run(chunk, journal))
            rows += chunk.count
        else:
            batches.append(chunk.batch)
    return batches + to_batches(runs) if runs else batches


def load_payload(chunk: Chunk, journal: PayloadReader) -> bytes:
    """Read a frame's payload from the journal; checked, as it may have been damaged since the start read it."""
    payload = journal.read(chunk.place)
    if checksum(payload) != chunk.frame.crc:
        place = chunk.place
        segment = f"journal segment {place.epoch}-{place.segment}"
        raise Corruption(segment, f"{place.length} bytes at {place.position} fail their checksum")
    return payload


def payload_of(chunk: Chunk, journal: PayloadReader) -> bytes:
    """The payload of a chunk's frame, from memory or else from the journal."""
    return load_payload(chunk, journal) if chunk.payload is None else chunk.payload


def load_run(chunk: Chunk, journal: PayloadReader) -> Run:
    if chunk.run is not None:
        return chunk.run
    payload = payload_of(chunk, journal)
    frame = chunk.frame
    rows: Any = decode_arrow(payload) if frame.kind == ARROW else decode_block(payload)
    stamp = None if frame.stamp is None else ProducerStamp(*frame.stamp, 0)
    return Run(chunk.base_offset, rows, stamp)
