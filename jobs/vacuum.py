"""The job `vacuum` by its public name, and for `python -m jobs.vacuum`."""

import sys

from jobs.tables.vacuum import JOB, main

__all__ = ["JOB", "main"]

if __name__ == "__main__":
    sys.exit(main())
