"""The job `retention` by its public name, and for `python -m jobs.retention`."""

import sys

from jobs.tables.retention import JOB, main

__all__ = ["JOB", "main"]

if __name__ == "__main__":
    sys.exit(main())
