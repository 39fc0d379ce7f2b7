"""Looks inside an open log for what its door does not tell: how far a table is behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

from delta_log.log import Log
from delta_log.topics.topic_state import TopicState

_EVERY_S = 0.02


def live_of(log: Log, topic: str) -> TopicState:
    return log._live(topic)  # noqa: SLF001 - the one place that reaches in


def wait_tabled(live: TopicState) -> None:
    """Until the background has brought everything into the table, without hurrying it."""
    while live.pending:
        time.sleep(0.001)


class Lag:
    """The age of the oldest record that is not in the table, and how many bytes are not."""

    def __init__(self, live: TopicState) -> None:
        self._live = live
        self.oldest_s = 0.0
        self.most_bytes = 0

    def now(self) -> float:
        """Seconds since the oldest of them was accepted; 0 when all are in the table."""
        with self._live.lock:
            oldest = self._live.pending[0].chunks[0][1].frame.timestamp_ms if self._live.pending else None
        return 0.0 if oldest is None else max(0.0, time.time() - oldest / 1000)

    @contextmanager
    def watched(self) -> Generator[None]:
        """Remember the worst."""
        stop = threading.Event()
        thread = threading.Thread(target=self._watch, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _watch(self, stop: threading.Event) -> None:
        while not stop.wait(_EVERY_S):
            self.oldest_s = max(self.oldest_s, self.now())
            self.most_bytes = max(self.most_bytes, self._live.untabled)
