"""Causes of Spark's failures, in one sentence, and whether one of the project's own parts failed in a task.

It knows the names of errors of Spark and of the source, which come as text, and no job.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NamedTuple

from jobs.foundation.result import Unfinished, one_sentence
from jobs.spark.jvm import SparkGone, is_end_of_java

__all__ = ["cause_of", "in_words", "is_of_spark", "is_own", "why_not_begun"]

_RAISED: Final = re.compile(r"(?:Caused by: |: )?([A-Za-z_][\w.$]*(?:\.\w+|Error|Exception|Interrupt)): (.+)")
#: Last line of a Python trace of an error without a message; in Java something precedes the name.
_WORDLESS: Final = re.compile(r"([A-Za-z_]\w*(?:Error|Exception|Interrupt))()")
#: Start of Spark's message, which goes on with settings for debugging the worker.
_DEATH: Final = "Python worker exited unexpectedly"
_DIED: Final = "a Python worker died amid its work, as one does that is killed, or for want of memory"
_OWN: Final = "jobs.source."
#: Compared by name, as its package has no types.
_OF_JAVA: Final = "Py4JJavaError"
#: Part of the only error when no master was found: the cause is in the log, and Spark has stopped by then.
_STOPPED: Final = "stopped SparkContext"


class _Cause(NamedTuple):
    kind: str
    what: str


@contextmanager
def in_words() -> Generator[None]:
    """Turn an error of a Spark task into Unfinished, with its cause in one sentence, or into SparkGone."""
    try:
        yield
    except Exception as error:
        if is_end_of_java(error):
            raise SparkGone from error
        if not is_of_spark(error):
            raise
        raise Unfinished(f"a task of Spark failed: {cause_of(error)}") from error


def is_of_spark(error: BaseException) -> bool:
    """Return whether an error is of Spark, with traces of Java and Python in one text."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - a job without Spark must not need it

    return isinstance(error, PySparkException) or type(error).__name__ == _OF_JAVA


def why_not_begun(said: str, master: str | None) -> str | None:
    """Reason why a session did not start, if Spark does not give it; else None."""
    if master is None or master.startswith("local") or _STOPPED not in said:
        return None
    return f"the master {master} could not be reached, or ended the application"


def cause_of(error: BaseException) -> str:
    """Return the cause of an error in one sentence."""
    cause = _cause(error) if is_of_spark(error) else None
    if cause is None:
        return one_sentence(error)
    if cause.what.startswith(_DEATH):
        return _DIED
    name = cause.kind.rpartition(".")[2]
    return cause.what if cause.kind.startswith(_OWN) else f"{name}: {cause.what}" if cause.what else name


def is_own(error: Exception) -> bool:
    """Return whether a task failed with an error of the source, such as a server that does not answer."""
    cause = _cause(error) if is_of_spark(error) else None
    return cause is not None and cause.kind.startswith(_OWN)


def _cause(error: BaseException) -> _Cause | None:
    """Find the root cause, the last error in the text; after the death of a worker the last one is of its socket."""
    lines = str(error).splitlines()
    causes = [found for line in lines if (found := _RAISED.fullmatch(line) or _WORDLESS.fullmatch(line))]
    told = [_Cause(*found.groups()) for found in causes]
    return next((each for each in told if each.what.startswith(_DEATH)), told[-1] if told else None)
