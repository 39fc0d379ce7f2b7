"""Reading on for whoever goes on, while what he asked for last is on its way to him. Thread-safe.

It keeps nothing: what was read is left where the next fetch looks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

#: Beyond so many readers at a time each reads for himself.
_AT_ONCE: Final = 2


class ReadAhead:
    """Its threads begin with the first who goes on, and end with `close`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[Hashable, Future[None]] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._closed = False

    def begin(self, place: Hashable, read: Callable[[], None]) -> None:
        """Have `read` called, which raises nothing, unless it is already or there is too much of it."""
        with self._lock:
            if self._closed or place in self._under_way or len(self._under_way) >= _AT_ONCE:
                return
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="lakelog-ahead")
            self._under_way[place] = future = self._threads.submit(read)
        future.add_done_callback(lambda _: self._forget(place))

    def wait(self, place: Hashable) -> None:
        """Until what is being read of this place has been."""
        future = self._under_way.get(place)
        if future is not None and not future.cancelled():
            future.exception()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            threads = self._threads
        if threads is not None:
            threads.shutdown()

    def _forget(self, place: Hashable) -> None:
        with self._lock:
            self._under_way.pop(place, None)
