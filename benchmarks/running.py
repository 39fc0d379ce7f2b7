"""Runs one benchmark in a process group of its own, and ends all of it whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from benchmarks.rows import Row

_PROJECT = Path(__file__).resolve().parents[1]


class Failed(Exception):
    def __init__(self, name: str, status: int) -> None:
        super().__init__(f"{name} failed with status {status}")


def run_benchmark(name: str, size: str, directory: Path, most_seconds: float) -> Iterator[Row]:
    """Its rows, as they come."""
    command = [sys.executable, "-m", "benchmarks.child", name, size, str(directory)]
    process = subprocess.Popen(command, cwd=_PROJECT, stdout=subprocess.PIPE, start_new_session=True)
    timer = threading.Timer(most_seconds, _end, [process])
    timer.start()
    try:
        if process.stdout is not None:
            for line in process.stdout:
                yield msgspec.json.decode(line, type=Row)
        if process.wait():
            raise Failed(name, process.returncode)
    finally:
        timer.cancel()
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """The group too, whose processes may be stopped and would wait for ever."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
