"""Caches rows decoded beyond a fetch's limit for the next sequential fetch. Thread-safe.

A row group is decoded whole, and a fetch of the usual size ends within one; without this cache each following fetch
would decode the same row group again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import pyarrow as pa


class Leftover(NamedTuple):
    """The last decoded rows of a file, from the offset in its cache key on."""

    path: str
    batches: Sequence[pa.RecordBatch]


class RowCache:
    """An LRU cache of leftovers that keep at most `most_bytes` in memory."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[Leftover, int]] = OrderedDict()
        self._bytes = 0

    def keep(self, place: Hashable, leftover: Leftover) -> None:
        # A slice keeps the whole buffers that it was cut from in memory.
        size = sum(batch.get_total_buffer_size() for batch in leftover.batches)
        if size > self._most_bytes:
            return
        with self._lock:
            self._drop(place)
            self._kept[place] = leftover, size
            self._bytes += size
            while self._bytes > self._most_bytes:
                self._drop(next(iter(self._kept)))

    def find(self, place: Hashable) -> Leftover | None:
        """Look a leftover up; it stays in the cache, because several readers may read the same rows."""
        with self._lock:
            kept = self._kept.get(place)
            if kept is None:
                return None
            self._kept.move_to_end(place)
            return kept[0]

    def _drop(self, place: Hashable) -> None:
        _, size = self._kept.pop(place, (None, 0))
        self._bytes -= size
