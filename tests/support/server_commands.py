"""Commands that ask a server, as people and programs call them, told where it is by its variable.

    ran = call_command(server.url, "topics", "list", "--output", "json")
    assert (ran.code, ran.rows) == (0, [{"topic": "orders"}])

`call_command` calls one in this process, which is quick; `run_command` runs one as a shell does; `start_command` is for
those that a test talks to while they run: it ends what is still there.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from typing import Any, NamedTuple
from unittest import mock

from lakelog.cli.main import main
from tests.architecture.project_files import ROOT
from tests.support.serving import environment

DEADLINE_S = 60.0
PROGRAM = (sys.executable, "-m", "lakelog")


class Ran(NamedTuple):
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What `--output json` shows."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def sentence(self) -> str:
        """What is said of a failure: one line, and no stack trace."""
        assert self.code != 0, self
        assert self.err.count("\n") == 1, self.err
        return self.err


def call_command(url: str | None, *words: str, given: bytes = b"") -> Ran:
    """In this process; its streams are no terminals."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with (
        mock.patch.dict(os.environ, told(url), clear=True),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            code = main(words)
        except SystemExit as end:
            code = end.code
    out.flush()
    assert isinstance(code, int)
    return Ran(code, out.buffer.getvalue(), err.getvalue())


def run_command(url: str | None, *words: str, given: bytes = b"") -> Ran:
    """`url` None is nobody's: nothing says where a server is."""
    ended = subprocess.run(
        [*PROGRAM, *words], input=given, capture_output=True, timeout=DEADLINE_S, check=False, cwd=ROOT, env=told(url)
    )
    return Ran(ended.returncode, ended.stdout, ended.stderr.decode())


def told(url: str | None) -> dict[str, str]:
    return environment() | ({} if url is None else {"LAKELOG_SERVER": url})


class Running:
    """A command under way; its standard input stays open until `finish`."""

    def __init__(self, url: str, words: tuple[str, ...]) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            [*PROGRAM, *words], stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT, env=told(url), start_new_session=True
        )

    def give(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self) -> bytes:
        """The next line of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def stop_reading(self) -> None:
        """As `head` does when it has what it wants."""
        assert self.process.stdout is not None
        self.process.stdout.close()

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def finish(self) -> Ran:
        """Wait until it has ended."""
        assert self.process.stdout is not None
        if self.process.stdout.closed:
            assert self.process.stderr is not None
            err = self.process.stderr.read()
            return Ran(self.process.wait(DEADLINE_S), b"", err.decode())
        out, err = self.process.communicate(timeout=DEADLINE_S)
        return Ran(self.process.returncode, out, err.decode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@contextlib.contextmanager
def start_command(url: str, *words: str) -> Generator[Running]:
    running = Running(url, words)
    try:
        yield running
    finally:
        running.close()
