"""Whose fault it is that a batch failed.

    with blamed(): …      what a function, or the action over what it made, raises is Raised; what is no record's fault
                          is raised as it is

No record's fault is what this project's own parts say (a server that does not answer, a fenced member), and what Spark
knows of a plan before it has seen a row.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from delta_log.model.errors import LakelogError
from jobs.foundation.result import Unfinished
from jobs.source.errors import SourceError
from jobs.spark.failure_causes import cause_of, is_own
from jobs.spark.jvm import SparkGone, is_end_of_java, is_of_gateway

__all__ = ["Raised", "blamed", "plainly"]


class Raised(Exception):
    """A batch, or a part of one, cannot be worked on; `error` is what was raised."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(cause_of(error))


@contextmanager
def blamed(*but: type[Exception]) -> Generator[None]:
    try:
        yield
    except (LakelogError, Unfinished, SourceError, *but):
        raise
    except Exception as error:
        if is_end_of_java(error):
            raise SparkGone from error
        if _is_of_a_plan(error) or is_own(error) or is_of_gateway(error):
            raise
        raise Raised(error) from error


@contextmanager
def plainly() -> Generator[None]:
    """For whoever does not ask whose fault it is."""
    try:
        yield
    except Raised as raised:
        raise raised.error from None


def _is_of_a_plan(error: Exception) -> bool:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - a job without Spark must not need it

    return isinstance(error, AnalysisException)
