"""Registry of jobs. The module of a job has its name, `main(argv)` and `JOB`."""

from __future__ import annotations

from typing import Final

__all__ = ["JOBS"]

JOBS: Final = ("retention", "compaction", "key_compaction", "audit", "vacuum", "checkpoint", "consume", "materialize")
