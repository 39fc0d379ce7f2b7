"""The job `materialize`: turns a topic into a typed Delta table of the user's own, exactly once.

`commit_marks`, `columns`, `schemas`, `avro`, `protobuf`, `parse_errors` and `dead_letter_bookmark` decide without a
JVM, and `parsing` and `latest_per_key` map frames to frames; `target`, `dead_letter_writer` and `batches` have the
effects. Only `job` knows the command line, and it is imported lazily: Spark's workers import parts of this package
without needing it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.materialize.job import JOB, main

__all__ = ["JOB", "main"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.job"), name)
