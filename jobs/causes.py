"""Why Spark says that something failed, and whose fault that is. Pure.

    with blamed(): …      what a function, or the action over what it made, raises is Raised; what is no record's fault
                          is raised as it is

No record's fault is what this project's own parts say (a server that does not answer, a fenced member), and what Spark
knows of a plan before it has seen a row.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NamedTuple

from delta_log.errors import LakelogError
from jobs.outcome import Unfinished, one_sentence
from jobs.source.errors import SourceError

__all__ = ["Raised", "blamed", "cause_of", "is_of_spark", "plainly"]

_RAISED: Final = re.compile(r"(?:Caused by: |: )?([A-Za-z_][\w.$]*(?:\.\w+|Error|Exception|Interrupt)): (.+)")
_OWN: Final = "jobs.source."
#: By its name, as it comes from a package that has no types.
_OF_JAVA: Final = "Py4JJavaError"


class Raised(Exception):
    """A batch, or a part of one, cannot be worked on; `error` is what was raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(cause_of(error))


class _Cause(NamedTuple):
    kind: str
    what: str


@contextmanager
def blamed(*but: type[Exception]) -> Generator[None]:
    try:
        yield
    except (LakelogError, Unfinished, SourceError, *but):
        raise
    except Exception as error:
        if _is_of_a_plan(error) or _is_own(error) or _is_end_of_java(error):
            raise
        raise Raised(error) from error


@contextmanager
def plainly() -> Generator[None]:
    """For whoever does not ask whose fault it is."""
    try:
        yield
    except Raised as raised:
        raise raised.error from None


def is_of_spark(error: BaseException) -> bool:
    """Whether it has traces of Java and Python in one text."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - a job without Spark must not need it

    return isinstance(error, PySparkException) or type(error).__name__ == _OF_JAVA


def cause_of(error: BaseException) -> str:
    """In one sentence."""
    cause = _cause(error) if is_of_spark(error) else None
    if cause is None:
        return one_sentence(error)
    return cause.what if cause.kind.startswith(_OWN) else f"{cause.kind.rpartition('.')[2]}: {cause.what}"


def _cause(error: BaseException) -> _Cause | None:
    """Who caused it all stands last, behind the name of its class."""
    causes = [found for line in str(error).splitlines() if (found := _RAISED.fullmatch(line))]
    return _Cause(*causes[-1].groups()) if causes else None


def _is_of_a_plan(error: Exception) -> bool:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - a job without Spark must not need it

    return isinstance(error, AnalysisException)


def _is_own(error: Exception) -> bool:
    cause = _cause(error) if is_of_spark(error) else None
    return cause is not None and cause.kind.startswith(_OWN)


def _is_end_of_java(error: Exception) -> bool:
    """The process that Spark runs in does not answer."""
    return type(error).__module__.startswith("py4j.") and type(error).__name__ != _OF_JAVA
