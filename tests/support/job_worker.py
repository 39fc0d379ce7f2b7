"""A job in a process of its own, that may die at a step of it.

job_worker.py <job> <step> <hit> <option>…
"""

from __future__ import annotations

import sys
from importlib import import_module

from tests.support.kill_probe import Probe


def main(job: str, step: str, hit: str, *options: str) -> int:
    return import_module(f"jobs.{job}").main(options, probe=Probe(step, int(hit)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
