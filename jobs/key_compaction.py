"""The job `key_compaction` by its public name, and for `python -m jobs.key_compaction`."""

import sys

from jobs.tables.key_compaction import JOB, main

__all__ = ["JOB", "main"]

if __name__ == "__main__":
    sys.exit(main())
