"""What a record may be blamed for, and what ends a job as it is."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import AnalysisException, PythonException

from delta_log.errors import InvalidRequest
from jobs.causes import Raised, blamed, cause_of, plainly
from jobs.outcome import Unfinished
from jobs.source.errors import NotReadable

TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "there.py", line 2, in f
{}: what was wrong
"""
DEATH = """An error occurred.
: org.x.SparkException: Job aborted: org.x.SparkException: Python worker exited unexpectedly (crashed). Set this.
\tat x
Caused by: org.x.SparkException: Python worker exited unexpectedly (crashed). Set this.
\t... 1 more
Caused by: java.{}
"""
DIED = "a Python worker died amid its work, as one does that is killed, or for want of memory"


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequest("no"),
        Unfinished("no"),
        NotReadable("here", "records", "no"),
        AnalysisException("no such column"),
        PythonException(TRACE.format("jobs.source.errors.NotReadable")),
        Py4JNetworkError("nobody there"),
        KeyboardInterrupt(),
        BrokenPipeError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_no_record_is_blamed_for(error: BaseException):
    with pytest.raises(type(error)), blamed(BrokenPipeError):
        raise error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ValueError("no number"), "ValueError: no number"),
        (BrokenPipeError("gone"), "BrokenPipeError: gone"),
        (PythonException(TRACE.format("ValueError")), "ValueError: what was wrong"),
        (
            PythonException("An error occurred.\n: org.x.SparkException: Job aborted\n\tat x"),
            "SparkException: Job aborted",
        ),
        (PythonException("Caused by: org.x.SparkNumberFormatException: what"), "SparkNumberFormatException: what"),
        (PythonException("An exception was thrown.\nTraceback\n  File\nMemoryError\n"), "MemoryError"),
        (PythonException(DEATH.format("io.EOFException")), DIED),
        (PythonException(DEATH.format("net.SocketException: Connection reset")), DIED),
    ],
)
def test_a_record_is_blamed_for(error: Exception, why: str):
    with pytest.raises(Raised) as raised, blamed():
        raise error
    assert (str(raised.value), raised.value.error) == (why, error)
    with pytest.raises(type(error)), plainly(), blamed():
        raise error


def test_of_what_the_project_says_itself_its_words_are_the_cause():
    assert cause_of(PythonException(TRACE.format("jobs.source.errors.DataLoss"))) == "what was wrong"
