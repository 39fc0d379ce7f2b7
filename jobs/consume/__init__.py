"""Topics as a streaming query of Spark, in a consumer group: the job `consume`, run by `python -m jobs.consume`.

Of the modules here `bisection` decides; `member_loop`, `batches`, `bisect_batch` and what they use do. The job is
imported when it is asked for: Spark's workers import parts of this package, and need no job.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobs.consume.job import JOB, main

__all__ = ["JOB", "main"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.job"), name)
