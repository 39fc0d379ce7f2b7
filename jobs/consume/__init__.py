"""Topics as a streaming query of Spark, in a consumer group: the job `consume`, run by `python -m jobs.consume`.

`bisection` makes decisions; `member_loop`, `batches`, `bisect_batch` and their helpers carry them out. The job is
imported lazily: Spark's workers import parts of this package without needing it.
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
