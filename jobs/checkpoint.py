"""The job `checkpoint` by its public name, and for `python -m jobs.checkpoint`."""

import sys

from jobs.tables.checkpoint import JOB, main

__all__ = ["JOB", "main"]

if __name__ == "__main__":
    sys.exit(main())
