"""One line on a terminal that says what runs and since when; nothing where nobody looks."""

from __future__ import annotations

import sys
import threading
from time import monotonic
from types import TracebackType
from typing import Self

_EVERY_S = 0.5
_CLEAR = "\r\x1b[K"


class Progress:
    def __init__(self, total: int) -> None:
        self._shown = sys.stderr.isatty()
        self._total = total
        self._begun = 0
        self._name = ""
        self._since = monotonic()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Self:
        if self._shown:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._shown:
            self._thread.join()
            self._write(_CLEAR)

    def begin(self, name: str) -> None:
        self._begun, self._name, self._since = self._begun + 1, name, monotonic()

    def print(self, line: str) -> None:
        """A line of the results, above the progress."""
        with self._lock:
            if self._shown:
                self._write(_CLEAR)
            print(line, flush=True)

    def _tick(self) -> None:
        while not self._stop.wait(_EVERY_S):
            with self._lock:
                self._write(f"{_CLEAR}[{self._begun}/{self._total}] {self._name}, {monotonic() - self._since:.0f} s")

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
