"""The access log: a line for each request, or for each failed or slow one, written by a thread of its own.

The loop only appends to a bounded queue. A full queue drops its oldest entries and counts them. Knows how a line looks;
must not know where logs go, which is a matter of the logging configuration.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import Final, Literal, NamedTuple

Which = Literal["off", "errors", "all"]

ROOM: Final = 10_000
#: A slower request is logged even if only errors are, unless the client asked for a long answer.
SLOW_S: Final = 1.0
_EVERY_S: Final = 0.1
_MOST_SHOWN: Final = 1000


class Access(NamedTuple):
    """Entry of a request. `size` is that of the answer's body, None if it was streamed."""

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
    """Queue and writer thread. Only the loop calls `add`; the server calls `start` and `stop`."""

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
        """Write the remaining entries. Nothing is written after this."""
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
    """Make a log record with the time of its request. `facts` are its fields for structured formats."""
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
    """Show any URL of a client on one line of printable characters."""
    text = raw[:_MOST_SHOWN].decode("ascii", "backslashreplace")
    shown = "".join(char if char.isprintable() and char != '"' else f"\\x{ord(char):02x}" for char in text)
    return shown if len(raw) <= _MOST_SHOWN else shown + "…"
