"""The log of a server: a thread writes every line, so that no other thread waits for the reader of the log.

If the reader is too slow, lines are dropped and counted, and the server goes on.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Generator
from typing import Final, TextIO

from ingest_api.observe.log_format import JsonLines, TextLines

MOST_WAITING: Final = 10_000
#: Lines are written together: the stream is flushed once for all waiting lines.
_TOGETHER: Final = 500
_TO_END_S: Final = 1.0
#: Loggers that report each start and stop, which the server does itself.
_TALKATIVE: Final = ("uvicorn", "uvicorn.error", "asyncio")


class LogWriter(logging.Handler):
    """The only log handler. Lines are formatted by the caller, and written by the thread."""

    def __init__(self, stream: TextIO, lines: logging.Formatter, *, most_waiting: int = MOST_WAITING) -> None:
        super().__init__()
        self.setFormatter(lines)
        self._stream = stream
        self._most_waiting = most_waiting
        self._waiting: deque[str] = deque()
        self._something = threading.Semaphore(0)
        self._dropped = 0
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="lakelog-logs", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if len(self._waiting) >= self._most_waiting:
            self._dropped += 1
            return
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - a message that cannot be formatted must not fail its caller
            line = f"a message of {record.name} at {record.pathname}:{record.lineno} could not be put into words"
        self._waiting.append(line)
        self._something.release()

    def close(self) -> None:
        """Write the waiting lines, within a bounded time."""
        self._ending = True
        self._something.release()
        self._thread.join(_TO_END_S)
        super().close()

    def _run(self) -> None:
        while not self._ending or self._waiting:
            self._something.acquire()
            lines = [self._waiting.popleft() for _ in range(min(len(self._waiting), _TOGETHER))]
            for _ in lines[1:]:
                self._something.acquire(blocking=False)
            if self._dropped:
                dropped, self._dropped = self._dropped, 0
                lines.append(f"{dropped} lines of the log were left out: its reader is too slow")
            # The reader of the log may be gone: the server goes on.
            with contextlib.suppress(OSError, ValueError):
                self._stream.write("".join(f"{line}\n" for line in lines))
                self._stream.flush()


@contextlib.contextmanager
def logging_to(stream: TextIO, *, log_format: str, level: str) -> Generator[LogWriter]:
    """Let every logger of this process write to `stream`, in one format."""
    json = log_format == "json" or (log_format == "auto" and not stream.isatty())
    writer = LogWriter(stream, JsonLines() if json else TextLines())
    root = logging.getLogger()
    before, level_before = list(root.handlers), root.level
    root.handlers[:] = [writer]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    try:
        yield writer
    finally:
        logging.captureWarnings(capture=False)
        root.handlers[:] = before
        root.setLevel(level_before)
        writer.close()
