"""`python -m jobs.consume`."""

import sys

from jobs.consume.job import main

if __name__ == "__main__":
    sys.exit(main())
