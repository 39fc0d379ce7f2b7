"""A real server over a directory: `lakelog serve` in a process of its own, on a port of its own, ready to be asked.

    with serving(tmp_path, auto_create_topics=True) as server:
        httpx.get(f"{server.url}/topics")
        server.kill()

Settings are given by their names; `topic_defaults={"retention.ms": 5}` sets `topic.*`. At the end of the block a server
that still runs is told to stop, and the test fails if that was not clean.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import IO, Any

from tests.architecture.project_files import ROOT

DEADLINE_S = 40.0
LISTENS = re.compile(r"listens on (http\S*://\S+)")


class Server:
    """One life of a server. `terminate`, `interrupt` and `kill` end it and answer its exit code."""

    def __init__(self, root: Path | str | None, settings: Mapping[str, Any], *, program: tuple[str, ...] = ()) -> None:
        command = [*(program or (sys.executable, "-m", "lakelog")), "serve", *as_options(root, settings)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(),
        )
        self.url = ""
        self._said: queue.Queue[str | None] = queue.Queue()
        self._stdout: list[str] = []
        self._stderr: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(stream, into), daemon=True)
            for stream, into in ((self.process.stdout, self._stdout), (self.process.stderr, self._stderr))
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def address(self) -> tuple[str, int]:
        """For who wants a socket."""
        return ("127.0.0.1", self.port)

    @property
    def stdout(self) -> str:
        return "".join(self._stdout)

    @property
    def stderr(self) -> str:
        """All of it once the process has ended."""
        return "".join(self._stderr)

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait_until_listening(self) -> None:
        """It takes connections, and perhaps cannot answer them yet."""
        while not self.url:
            found = LISTENS.search(self._next_line())
            if found is not None:
                self.url = found[1]

    def wait_until_ready(self) -> None:
        self.wait_until_listening()
        while not self._next_line().startswith("ready"):
            pass

    def kill(self) -> int:
        """As the power goes: nothing is finished."""
        return self._end(signal.SIGKILL)

    def terminate(self) -> int:
        """The clean stop."""
        return self._end(signal.SIGTERM)

    def interrupt(self) -> int:
        """Ctrl-C."""
        return self._end(signal.SIGINT)

    def wait(self) -> int:
        """Until it has ended, of itself or because it was told to."""
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not end\n{self.story}") from None
        for reader in self._readers:
            reader.join(DEADLINE_S)
        return code

    @property
    def story(self) -> str:
        """For a person who asks why."""
        return f"exit code {self.process.returncode}\n{self.stdout}\n{self.stderr[-5000:]}"

    def close(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.wait()

    def _next_line(self) -> str:
        try:
            line = self._said.get(timeout=DEADLINE_S)
        except queue.Empty:
            raise AssertionError(f"the server was not ready in time\n{self.story}") from None
        if line is None:
            self.wait()
            raise AssertionError(f"the server did not start\n{self.story}")
        return line

    def _read(self, stream: IO[str] | None, into: list[str]) -> None:
        for line in stream or ():
            into.append(line)
            if into is self._stdout:
                self._said.put(line)
        if into is self._stdout:
            self._said.put(None)


@contextlib.contextmanager
def serving(root: Path | str | None, *, program: tuple[str, ...] = (), **settings: Any) -> Generator[Server]:
    """A server that is ready, over `root`, or in memory when that is None; another `program` may stand for it."""
    server = Server(root, settings, program=program)
    try:
        server.wait_until_ready()
        yield server
        if server.running:
            code = server.terminate()
            assert code == 0, f"the server did not stop cleanly\n{server.story}"
    finally:
        if server.running:
            server.kill()
        server.close()


def serve_in_vain(root: Path | str | None, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run a server that is expected to refuse its start."""
    command = [sys.executable, "-m", "lakelog", "serve", *as_options(root, settings)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=ROOT, env=environment()
    )


def as_options(root: Path | str | None, settings: Mapping[str, Any]) -> list[str]:
    """On port 0 unless another one is given. `config`, which is no setting, goes the same way.

    The ballast is small, as there are many roots. A stop may take as long as a machine may stand still; whoever tests
    its bound gives another.
    """
    given = {"port": 0, "drain_timeout_ms": 30_000, "ballast_bytes": 1024 * 1024} | dict(settings)
    topic_defaults: Mapping[str, Any] = given.pop("topic_defaults", {})
    given |= {f"topic.{name}": value for name, value in topic_defaults.items()}
    given |= {"memory": True} if root is None else {"data": root}
    return [f"--{name.replace('_', '-').replace('.', '-')}={_text(value)}" for name, value in given.items()]


def environment() -> dict[str, str]:
    """Without a Java, and without settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAKELOG_", "JAVA"))}
    return kept | {"PYTHONPATH": str(ROOT)}


def java() -> dict[str, str]:
    """What a program with Spark needs of our variables."""
    return {name: value for name, value in os.environ.items() if name.startswith(("JAVA", "LAKELOG_CACHE"))}


def wait_for(condition: Any, what: str = "it", seconds: float = DEADLINE_S) -> Any:
    """What a condition answers as soon as that is true."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.005)
    return answer


def journal_of(root: Path) -> list[Path]:
    """What of the journal would have to be replayed; the ballast and what is staged are no part of it."""
    files = (path for path in (root / "journal").iterdir() if path.is_file() and path.stat().st_size)
    return [path for path in files if not path.name.startswith("ballast-")]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
