"""Runs the crash worker, ends it with SIGKILL, and collects what it was promised before it died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from delta_log import Log, LogReader, Settings
from tests.support.ledger import Event, Ledger

WORKER = Path(__file__).parents[1] / "acceptance" / "crash_worker.py"
PROJECT = WORKER.parents[2]
DEADLINE_S = 45.0
SETTINGS = Settings(upkeep=False, segment_bytes=64 * 1024)


class Worker:
    """One life of the worker on a root."""

    def __init__(self, root: Path, number: int, *, step: str = "-", hit: int = 1, worker: Path = WORKER) -> None:
        command = [sys.executable, str(worker), str(root), str(number), step, str(hit)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=PROJECT,
            env={"PYTHONPATH": str(PROJECT), "PATH": ""},
        )
        self._timer = threading.Timer(DEADLINE_S, self._process.terminate)
        self._errors = b""

    def run(
        self,
        *,
        kill_after: int | None = None,
        close_after: int | None = None,
        before_kill: Callable[[], None] | None = None,
    ) -> list[Event]:
        """The events up to its death: by our hand after so many, by its own, or after it was told to close.

        `before_kill` is called while all of it stands still.
        """
        events: list[Event] = []
        self._timer.start()
        reader = threading.Thread(target=self._read_errors)
        reader.start()
        try:
            with self._process as process:
                for line in process.stdout or ():
                    if line.endswith(b"\n"):
                        events.append(json.loads(line))
                    if len(events) == kill_after:
                        if before_kill is not None:
                            process.send_signal(signal.SIGSTOP)
                            os.waitpid(process.pid, os.WUNTRACED)
                            before_kill()
                        process.send_signal(signal.SIGKILL)
                    if len(events) == close_after and process.stdin is not None:
                        process.stdin.close()
                reader.join()
        finally:
            self._timer.cancel()
        return [event for event in events if event[0] not in ("ready", "closing")]

    @property
    def was_killed(self) -> bool:
        return self._process.returncode == -signal.SIGKILL

    @property
    def story(self) -> str:
        """How it ended, for a person who asks why."""
        return f"exit {self._process.returncode}: {self._errors.decode()[-3000:]}"

    def _read_errors(self) -> None:
        if self._process.stderr is not None:
            self._errors = self._process.stderr.read()


def check_after_death(root: Path, ledger: Ledger) -> None:
    """Open the root, compare it with all promises, close it, and compare the tables as delta-rs reads them."""
    with Log.open(root, settings=SETTINGS) as log:
        ledger.check(log)
        ledger.check_repeats(log)
    with LogReader.open(root) as reader:
        ledger.check_tables(reader)
        ledger.check(reader)
