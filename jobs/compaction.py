"""The job `compaction` by its public name, and for `python -m jobs.compaction`."""

import sys

from jobs.tables.compaction import JOB, main

__all__ = ["JOB", "main"]

if __name__ == "__main__":
    sys.exit(main())
