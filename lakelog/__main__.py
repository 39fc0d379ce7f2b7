"""`python -m lakelog` is the program `lakelog`."""

import sys

from lakelog.cli import main

sys.exit(main())
