"""The program `lakelog` as a process, as a shell would call it: its output, its exit code, and whoever sits before it.

done = call_lakelog("check", "--data", root)
assert (done.code, done.err) == (0, "")
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lakelog.cli.main import main
from tests.support.serving import DEADLINE_S, environment, wait_for

PROGRAM = (sys.executable, "-m", "lakelog")


class Called(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def said(self) -> Any:
        """What `--output json` said."""
        return json.loads(self.out)

    @property
    def failure(self) -> str:
        """The one sentence of a failure."""
        assert self.err.count("\n") == 1, self.err
        assert "Traceback" not in self.err
        return self.err.rstrip("\n")


def call_lakelog(
    *words: object, cwd: Path | None = None, stdin: str | None = None, env: Mapping[str, str] | None = None
) -> Called:
    """With nobody at a terminal."""
    done = subprocess.run(
        [*PROGRAM, *map(str, words)],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
        cwd=cwd,
        env=environment() | dict(env or {}),
    )
    return Called(done.returncode, done.stdout, done.stderr)


def call_main(*words: object) -> Called:
    """The same in this process, which is much quicker, where a process of its own proves nothing more."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(map(str, words)))
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Called(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def calling_lakelog(*words: object, **options: Any) -> Generator[subprocess.Popen[str]]:
    """One that is at work inside of the block, and surely gone behind it."""
    given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    given["env"] = environment()
    process = subprocess.Popen([*PROGRAM, *map(str, words)], text=True, **given | options)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen[str], number: signal.Signals | None = None) -> Called:
    """What it said, once it has ended, by a signal or of itself."""
    if number is not None:
        process.send_signal(number)
    out, err = process.communicate(timeout=DEADLINE_S)
    return Called(process.returncode, out, err)


def call_without_reader(*words: object) -> Called:
    """Its output goes to a pipe that nobody reads any more."""
    reads, writes = os.pipe()
    os.close(reads)
    try:
        with calling_lakelog(*words, stdout=writes) as process:
            _, err = process.communicate(timeout=DEADLINE_S)
    finally:
        os.close(writes)
    return Called(process.returncode, "", err)


def call_at_terminal(*words: object, asked: str, answer: str | signal.Signals) -> Called:
    """With somebody at a terminal, who answers a question, or presses Ctrl-C at it."""
    ours, theirs = pty.openpty()
    try:
        with calling_lakelog(*words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True) as process:
            shown = b""

            def has_asked() -> bool:
                nonlocal shown
                shown += os.read(ours, 65536)
                return asked in shown.decode(errors="replace")  # a part of it may end amid a letter

            wait_for(has_asked, f"the question {asked!r}")
            if isinstance(answer, signal.Signals):
                process.send_signal(answer)
            else:
                os.write(ours, answer.encode())
            code = process.wait(DEADLINE_S)
            os.close(theirs)
            theirs = -1
            with contextlib.suppress(OSError):  # the end of a terminal
                while more := os.read(ours, 65536):
                    shown += more
    finally:
        for each in (ours, theirs):
            if each >= 0:
                os.close(each)
    return Called(code, shown.decode(), "")
