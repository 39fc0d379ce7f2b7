"""A scheduler whose job takes until it is told to end: it says `begun`, and goes on when a line comes on stdin.

jobs_worker.py <root> <seconds between two runs, or 0 for one>
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from lakelog.cli.jobs.running import Call, Scheduler, Stopping


def work(_words: Sequence[str]) -> int:
    try:
        _say("begun")
        line = os.read(0, 100).decode()
        _say(f"ended {line.strip()}")
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    return int(line or 0)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(root: str, seconds: str) -> int:
    call = Call("slow", work, (), root, "slow-000000000000", spark=False, master=None)
    with Stopping(patient=seconds != "0") as stopping:
        scheduler = Scheduler([call], "the worker", stopping)
        return scheduler.run_once() if seconds == "0" else scheduler.run_every(float(seconds), lambda: 0.5)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
