"""The Java process of Spark: detecting its end, replacing it, and silencing its traces.

pyspark uses one process for as long as Python runs, and does not handle its end: every call then fails with a socket
error, and traces of that go to stderr. It must not know what Spark is used for.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from jobs.foundation.result import Unfinished

__all__ = [
    "GONE",
    "SparkGone",
    "end_half_begun",
    "end_launch",
    "end_session",
    "has_java_ended",
    "hear_no_end",
    "hear_no_traces",
    "is_end_of_java",
    "is_of_gateway",
]

GONE: Final = "Spark is gone: its Java process has ended, as one does that is killed, or for want of memory"
#: Time to wait for the exit code of the process, whose sockets close earlier.
_MOMENT_S: Final = 1.0
_JAVA_RAISED: Final = "Py4JJavaError"
_UNANSWERED: Final = "Py4JNetworkError"
_LOUD: Final = ("", "py4j.java_gateway", "py4j.clientserver")


class SparkGone(Unfinished):
    """Spark has ended; nothing that needs it can go on without a new session."""

    def __init__(self) -> None:
        super().__init__(GONE)


def has_java_ended() -> bool:
    """Return whether Java has ended; unknown, and False, if another process started it."""
    process = _process()
    return process is not None and process.poll() is not None


def is_end_of_java(error: BaseException) -> bool:
    """Return whether an error comes from the end of the Java process; a living one raises other errors."""
    is_of_it = is_of_gateway(error)
    if is_of_it and type(error).__name__ == _UNANSWERED:
        return True
    return (is_of_it or isinstance(error, ConnectionError | EOFError)) and _has_just_ended()


def is_of_gateway(error: BaseException) -> bool:
    """Return whether a call of Java was not made or not answered; errors raised in Java have another type."""
    return type(error).__module__.startswith("py4j.") and type(error).__name__ != _JAVA_RAISED


def end_session(session: Any) -> None:
    """End a session, also if Java has ended, so that this process can start another."""
    if not has_java_ended():
        try:
            session.stop()
        except Exception as error:
            if not is_end_of_java(error):
                raise
        else:
            return
    _forget(session)


def end_half_begun() -> None:
    """Stop a context left by a failed start of a session, as it would be found in place of one."""
    active = getattr(_contexts(), "_active_spark_context", None)
    if active is not None:
        with suppress(Exception):
            active.stop()


def end_launch(error: BaseException) -> None:
    """End the process that was being launched when this error interrupted it.

    Nothing else refers to it, and it would run for ever: it reports its address in a folder that pyspark has deleted by
    then.
    """
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for name in ("proc", "self"):
            known: Any = frame.f_locals.get(name)
            if type(known).__name__ == "Popen" and hasattr(known, "pid"):
                known.kill()
                known.wait()


def hear_no_traces() -> None:
    """Suppress logged traces of failed or interrupted calls, as the caller reports them. Idempotent."""
    for name in _LOUD:
        logging.getLogger(name).addFilter(_is_no_trace)


def hear_no_end(session: Any) -> None:
    """Suppress the trace that the accumulator server prints when Java ends."""
    server = session.sparkContext._accumulatorServer  # noqa: SLF001
    tell: Callable[..., None] = server.handle_error

    def handle_error(*request: Any) -> None:
        if not isinstance(sys.exception(), EOFError | OSError):
            tell(*request)

    server.handle_error = handle_error


def _is_no_trace(record: logging.LogRecord) -> bool:
    return "py4j" not in record.pathname or record.exc_info is None


def _has_just_ended() -> bool:
    process = _process()
    if process is None:
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(_MOMENT_S)
    return has_java_ended()


def _process() -> Any:
    """Return the Java process; None if this process did not start one."""
    return getattr(getattr(_contexts(), "_gateway", None), "proc", None)


def _contexts() -> Any:
    """Return pyspark's SparkContext, or None if pyspark is not imported."""
    return getattr(sys.modules.get("pyspark"), "SparkContext", None)


def _forget(session: Any) -> None:
    from pyspark import SparkContext  # noqa: PLC0415 - there is a session, so it is there
    from pyspark.sql import SparkSession  # noqa: PLC0415 - likewise

    context = session.sparkContext
    context._jsc = None  # noqa: SLF001 - else stop() calls it, and fails
    context.stop()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
