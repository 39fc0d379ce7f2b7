"""The access log: one line for each request, or for each that went wrong, written by a thread of its own.

The loop only appends to a bounded queue. What comes faster than it can be written drops the oldest, which are counted.
Knows how a line looks; must not know where logs go, which is a matter of the logging configuration.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Final, Literal, NamedTuple

Which = Literal["off", "errors", "all"]

ROOM: Final = 10_000
#: A request that takes longer is worth a line even where only errors are, unless it was asked to take long.
SLOW_S: Final = 1.0
_EVERY_S: Final = 0.1
_MOST_SHOWN: Final = 1000


class Access(NamedTuple):
    """One request. `size` is that of the answer's body, None where it was streamed."""

    at: float
    method: str
    path: bytes
    query: bytes
    status: int
    seconds: float
    size: int | None
    client: str
    route: str
    request_id: bytes


class AccessLog:
    """`add` is for the loop alone; `start` and `stop` for whoever runs it."""

    def __init__(self, which: Literal["errors", "all"], *, room: int = ROOM) -> None:
        self.everything = which == "all"
        self.dropped = 0
        self._queue: deque[Access] = deque(maxlen=room)
        self._room = room
        self._logger = logging.getLogger("lakelog.access")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lakelog-access-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write what is left. Nothing is written after this."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._write_all()

    def add(self, access: Access) -> None:
        if len(self._queue) >= self._room:
            self.dropped += 1
        self._queue.append(access)

    def _run(self) -> None:
        while not self._stopping.wait(_EVERY_S):
            self._write_all()

    def _write_all(self) -> None:
        while self._queue:
            try:
                access = self._queue.popleft()
            except IndexError:
                return
            self._logger.handle(as_record(access, self._logger.name))


def open_access_log(which: Which) -> AccessLog | None:
    return None if which == "off" else AccessLog(which)


def as_record(access: Access, logger: str) -> logging.LogRecord:
    """A line with the time of its request. `facts` are for a form that keeps fields apart."""
    path = readable(access.path + b"?" + access.query if access.query else access.path)
    took_ms = round(access.seconds * 1000, 3)
    facts = {
        "method": access.method,
        "path": path,
        "status": access.status,
        "duration_ms": took_ms,
        "bytes": access.size,
        "client": access.client,
        "route": access.route,
    }
    level = logging.WARNING if access.status >= 500 else logging.INFO
    size = "streamed" if access.size is None else f"{access.size} bytes"
    text = f'{access.client} "{access.method} {path}" {access.status} {size} {took_ms} ms'
    record = logging.LogRecord(logger, level, "", 0, text, (), None)
    record.facts, record.request_id = facts, access.request_id.decode("latin-1")
    record.created, record.msecs = access.at, access.at % 1 * 1000
    return record


def readable(raw: bytes) -> str:
    """What a client sent as its URL, on one line of plain characters, whatever it was."""
    text = raw[:_MOST_SHOWN].decode("ascii", "backslashreplace")
    shown = "".join(char if char.isprintable() and char != '"' else f"\\x{ord(char):02x}" for char in text)
    return shown if len(raw) <= _MOST_SHOWN else shown + "…"
