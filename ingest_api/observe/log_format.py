"""The format of log lines: text for people, or JSON for programs. Pure.

Values given to a logger as `extra={"request_id": …}` or `extra={"facts": {…}}` become fields of the JSON.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

import msgspec


class TextLines(logging.Formatter):
    """`12:00:00.000 INFO    lakelog: message [request id]`, and a stack trace below it."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        message = one_line(record.getMessage())
        request_id = getattr(record, "request_id", "")
        known = f" [{request_id}]" if request_id else ""
        line = f"{clock}.{int(record.msecs):03d} {record.levelname:<7} {record.name}: {message}{known}"
        trace = self._trace(record)
        return f"{line}\n{trace}" if trace else line

    def _trace(self, record: logging.LogRecord) -> str:
        trace = self.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""
        return "\n".join(part for part in (trace, record.stack_info) if part)


class JsonLines(TextLines):
    """JSON: an object for each line; a stack trace is its field `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        facts: Mapping[str, Any] = getattr(record, "facts", {})
        line: dict[str, Any] = dict(facts)
        whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line["time"] = f"{whole}.{int(record.msecs):03d}Z"
        line |= {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        request_id = getattr(record, "request_id", "")
        trace = self._trace(record)
        if request_id:
            line["request_id"] = request_id
        if trace:
            line["exception"] = trace
        first = {name: line.pop(name) for name in ("time", "level", "logger", "message")}
        return msgspec.json.encode(first | line).decode()


def one_line(message: str) -> str:
    """Escape unprintable characters: text of a client in a message must not forge a line or control a terminal."""
    return message if message.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in message)
