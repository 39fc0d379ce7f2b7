"""`lakelog jobs run` with a streaming job that has nothing to do: it says `begun`, and ends when it is told to.

stream_worker.py <server> <seconds between two runs, or nothing for one>
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Final

import jobs.foundation.registry
from jobs.runner.stream_job import StreamJob, StreamRun, run_stream_job
from lakelog.cli.main import main

NAME: Final = "idle"


def work(run: StreamRun) -> None:
    run.say(["begun"])
    while not run.stopping.is_set():
        # Signals are heeded between two waits, and the main thread is the one that heeds them.
        threading.Event().wait(0.01)
    run.say(["ended"])


JOB: Final = StreamJob(NAME, "Do nothing.", work, {})


def run(argv: Sequence[str] | None = None, *, stopping: threading.Event | None = None) -> int:
    return run_stream_job(JOB, argv, stopping=stopping)


def start(server: str, *every: str) -> int:
    module = ModuleType(f"jobs.{NAME}")
    vars(module).update(JOB=JOB, main=run)
    sys.modules[module.__name__] = module
    jobs.foundation.registry.JOBS = (*jobs.foundation.registry.JOBS, NAME)
    repeated = ["--every", *every] if every else []
    return main(["jobs", "run", NAME, "--server", server, "--all", *repeated])


if __name__ == "__main__":
    sys.exit(start(*sys.argv[1:]))
