"""`python -m jobs.materialize`."""

import sys

from jobs.materialize.job import main

if __name__ == "__main__":
    sys.exit(main())
