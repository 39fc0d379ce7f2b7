"""Attribution of a failed batch: to its records or not.

    with blamed(): …      errors of a user's function, or of an action on its result, become Raised; errors that no
                          record causes are raised unchanged

No record causes the errors of this project's own parts (a server that does not answer, a fenced member), nor those that
Spark finds in a plan before it has seen a row.
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
    """Processing a batch, or a part of one, failed with `error`."""

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
    """Unwrap Raised, for callers that do not attribute failures."""
    try:
        yield
    except Raised as raised:
        raise raised.error from None


def _is_of_a_plan(error: Exception) -> bool:
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - a job without Spark must not need it

    return isinstance(error, AnalysisException)
