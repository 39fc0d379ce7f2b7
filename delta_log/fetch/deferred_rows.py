"""Rows of a response that are decoded on demand. Knows open files, not how the rows were found.

A file stays open until its rows were returned or dropped, so that promised rows stay readable even if it is deleted.
In a bucket an open file can still vanish, but not before `file.delete.delay.ms` has passed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from delta_log.delta.parquet import OpenFile
from delta_log.fetch.deferred_plan import Promise, cut_steps
from delta_log.fetch.fetch_result import Fetched
from delta_log.model.errors import Corruption, NotAvailable
from delta_log.stores.protocol import Store

#: Open files per response.
_MOST_FILES: Final = 16

Damaged = Callable[[Corruption], Exception]


class OpenFileLimit:
    """Limit on the files that are open at once for all responses together."""

    def __init__(self, most: int) -> None:
        self._free = threading.BoundedSemaphore(most)

    def take(self) -> bool:
        return self._free.acquire(blocking=False)

    def give_back(self) -> None:
        self._free.release()


class _Shared:
    """A file that several steps read. Thread-safe."""

    def __init__(self, file: OpenFile, steps: int, room: OpenFileLimit) -> None:
        self.file = file
        self._left = steps
        self._room = room
        self._lock = threading.Lock()

    def let_go(self) -> None:
        """Release one step's hold; the last one closes the file."""
        with self._lock:
            self._left -= 1
            if self._left:
                return
        self.file.close()
        self._room.give_back()


class Step:
    """Rows that are decoded together. A step is either loaded or dropped, exactly once, by any thread."""

    __slots__ = ("_columns", "_damaged", "_promises", "_shared")

    def __init__(self, shared: _Shared, promises: Sequence[Promise], columns: Sequence[str], damaged: Damaged) -> None:
        self._shared = shared
        self._promises = promises
        self._columns = columns
        self._damaged = damaged

    @property
    def size(self) -> int:
        return sum(promise.size for promise in self._promises)

    def load(self) -> list[pa.RecordBatch]:
        """Decode exactly the promised rows; NotAvailable if their file has been deleted."""
        try:
            return self._read()
        except Corruption as error:
            raise self._damaged(error) from error
        except FileNotFoundError as error:
            raise NotAvailable(f"{self._shared.file.path} was deleted while it was read; read again") from error
        finally:
            self._shared.let_go()

    def drop(self) -> None:
        self._shared.let_go()

    def _read(self) -> list[pa.RecordBatch]:
        promises, file = self._promises, self._shared.file
        rows = file.read([promise.number for promise in promises], self._columns)
        promised = sum(promise.rows for promise in promises)
        batches = [batch for batch in rows.slice(promises[0].skipped, promised).to_batches() if batch.num_rows]
        found = sum(batch.num_rows for batch in batches)
        if found != promised or batches[-1].column(0)[-1].as_py() + 1 != promises[-1].next_offset:
            raise Corruption(file.path, "its rows are not those that its footer names")
        return batches


class DeferredRows:
    """Promised rows of one response, in order. The caller that holds it must close it."""

    def __init__(self, columns: Sequence[str], room: OpenFileLimit) -> None:
        self._columns = columns
        self._room = room
        self._steps: deque[Step] = deque()
        self._files = 0
        self.rows = 0
        self.size = 0
        #: size of the largest step
        self.largest = 0

    def open(self, store: Store, path: str) -> OpenFile | None:
        """Open a file for `add`; None while too many are open."""
        if self._files >= _MOST_FILES or not self._room.take():
            return None
        try:
            return OpenFile(store, path)
        except BaseException:
            self._room.give_back()
            raise

    def add(self, file: OpenFile, promises: Sequence[Promise], damaged: Damaged) -> None:
        """Append promised rows of a file; without promises, close the file."""
        if not promises:
            _Shared(file, 1, self._room).let_go()
            return
        cut = cut_steps(promises)
        shared = _Shared(file, len(cut), self._room)
        steps = [Step(shared, some, self._columns, damaged) for some in cut]
        self._files += 1
        self._steps += steps
        self.rows += sum(promise.rows for promise in promises)
        self.size += sum(step.size for step in steps)
        self.largest = max(self.largest, *(step.size for step in steps))

    def take(self) -> Step | None:
        """Take the next step; None after the last. Steps may be loaded concurrently."""
        try:
            return self._steps.popleft()
        except IndexError:
            return None

    def close(self) -> None:
        """Drop the steps that were not taken; taken ones are still loaded by the caller that took them."""
        while (step := self.take()) is not None:
            step.drop()

    def __del__(self) -> None:
        """Release the files of a response that was abandoned."""
        self.close()


@dataclass(frozen=True, slots=True)
class PartialFetch:
    """A fetch whose first records may be decoded already, with the records after them promised."""

    first: Fetched
    later: DeferredRows

    @property
    def partition(self) -> int:
        return self.first.partition

    @property
    def next_offset(self) -> int:
        """The offset after all records, the promised ones included."""
        return self.first.next_offset

    @property
    def end_offset(self) -> int:
        return self.first.end_offset

    @property
    def log_start_offset(self) -> int:
        return self.first.log_start_offset

    @property
    def count(self) -> int:
        return self.first.count + self.later.rows

    @property
    def size(self) -> int:
        """Approximate memory size of all records."""
        return self._size_at_hand + self.later.size

    def held(self, steps: int) -> int:
        """Memory in use while `steps` steps are loaded."""
        return self._size_at_hand + min(self.later.size, steps * self.later.largest)

    @property
    def _size_at_hand(self) -> int:
        return sum(batch.nbytes for batch in self.first.batches)
