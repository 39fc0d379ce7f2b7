"""The job `audit` by its public name, and for `python -m jobs.audit`."""

import sys

from jobs.tables.audit import JOB, main

__all__ = ["JOB", "main"]

if __name__ == "__main__":
    sys.exit(main())
