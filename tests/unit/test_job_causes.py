"""What a record may be blamed for, and what ends a job as it is."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import AnalysisException, PythonException

from delta_log.model.errors import InvalidRequest
from jobs.consume.blame import Raised, blamed, plainly
from jobs.foundation.result import Unfinished
from jobs.source.errors import NotReadable
from jobs.spark.failure_causes import cause_of, in_words, why_not_begun
from jobs.spark.jvm import SparkGone, has_java_ended

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


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the place of the one that pyspark has started."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        yield process
        process.kill()


OF_THE_END = (Py4JNetworkError("nobody there"), ConnectionRefusedError(111, "Connection refused"), EOFError())


@pytest.mark.parametrize("error", OF_THE_END, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("telling", [blamed, in_words])
def test_no_record_is_blamed_for_the_end_of_java_which_is_told_as_such(telling, error: Exception, java):
    java.send_signal(signal.SIGKILL)
    with pytest.raises(SparkGone, match="its Java process has ended"), telling():
        raise error


def test_what_pyspark_cannot_do_is_no_end_of_java_and_no_records_fault(java):
    missing = Py4JError("o1.nothing. Trace: Method nothing([]) does not exist")
    for telling in (blamed, in_words):
        with pytest.raises(Py4JError, match="does not exist"), telling():
            raise missing
    java.kill()
    with pytest.raises(SparkGone), blamed():
        raise missing


def test_a_connection_of_a_functions_own_that_is_refused_is_no_end_of_java(java):
    with pytest.raises(Raised), blamed():
        raise ConnectionRefusedError(111, "Connection refused")
    assert not has_java_ended()


@pytest.mark.parametrize(
    ("master", "said", "why"),
    [
        (
            "spark://there:7077",
            "Cannot call methods on a stopped SparkContext.",
            "the master spark://there:7077 could not be reached, or ended the application",
        ),
        ("spark://there:7077", "no room", None),
        ("local[2]", "Cannot call methods on a stopped SparkContext.", None),
        (None, "Cannot call methods on a stopped SparkContext.", None),
    ],
)
def test_a_master_that_is_not_reached_is_named_where_spark_says_that_it_has_stopped(master, said: str, why):
    assert why_not_begun(f"An error occurred.\n: java.lang.IllegalStateException: {said}", master) == why
