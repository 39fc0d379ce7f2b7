"""How a topic becomes a typed Delta table of the user's own, exactly once: the job `materialize`.

Of the modules here `commit_marks`, `columns`, `schemas`, `avro`, `protobuf`, `parse_errors` and `dead_letter_bookmark`
decide without a JVM, and `parsing` and `latest_per_key` are functions from frame to frame; `target`,
`dead_letter_writer` and `batches` do. Only `job` knows how the job is called, and it is imported when it is asked for:
Spark's workers import parts of this package, and need no job.
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
