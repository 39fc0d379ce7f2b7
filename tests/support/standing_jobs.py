"""Jobs of one process and one JVM that stand still, each at a step of its own, until all of it is killed at once.

    kill_at([Standing("jobs.consume", "consume.put", 2, ["--group", …]), …])

So a start of Spark is paid once for any number of steps; what is killed is the driver, its JVM and what they have in
hand. As a program it takes the jobs as JSON from its standard input, and says of each when it stands, or ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

from tests.architecture.project_files import ROOT
from tests.support.serving import wait_for

#: Six times of what it takes: a JVM, and twenty jobs in it.
SECONDS = 600
#: For few rows: queries are neither compiled, nor planned again while they run.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
#: So many are on their way to their steps at once, which is as many as have a core, but the first alone: with two a JVM
#: that has just started now and then reads a task before its classes are there.
AT_ONCE = threading.Semaphore(2)
FIRST = threading.Event()


class Standing(NamedTuple):
    """A job, by its module, with its options, and which hit of which step it is to stand at."""

    job: str
    step: str
    hit: int
    options: Sequence[object]


def kill_at(jobs: Sequence[Standing]) -> None:
    """Run them until each stands at its step; then SIGKILL for the driver and the JVM."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.standing_jobs"],
        cwd=ROOT,
        env=os.environ | {"LAKELOG_CACHE": os.environ.get("LAKELOG_CACHE") or str(ROOT / ".cache")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said: dict[str, list[str]] = {"out": [], "err": []}
    readers = [
        threading.Thread(target=_read, args=(stream, said[name]))
        for name, stream in (("out", process.stdout), ("err", process.stderr))
    ]
    for reader in readers:
        reader.start()
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps([[*each[:3], list(map(str, each.options))] for each in jobs]))
        process.stdin.close()
        wait_for(lambda: len(_stand(said["out"])) == len(jobs) or _ended(said["out"]), "that all stand", SECONDS)
        assert not _ended(said["out"])
    except AssertionError as error:
        missing = [jobs[n] for n in range(len(jobs)) if n not in _stand(said["out"])]
        story = "".join([*_ended(said["out"]), *said["err"]])[-6000:]
        raise AssertionError(f"{error}\n{missing}\n{story}") from None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        for reader in readers:
            reader.join()


def _stand(said: Sequence[str]) -> set[int]:
    return {int(line.split()[1]) for line in list(said) if line.startswith("stands ")}


def _ended(said: Sequence[str]) -> list[str]:
    return [line for line in list(said) if line.startswith("ended ")]


def _read(stream: IO[str] | None, into: list[str]) -> None:
    if stream is not None:
        with stream:
            for line in stream:
                into.append(line)  # noqa: PERF402 - others look at it meanwhile


class _Stands:
    """The probe of one of them."""

    def __init__(self, number: int, step: str, hit: int) -> None:
        self._number, self._step, self._left = number, step, hit

    def __call__(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                _say(f"stands {self._number}")
                AT_ONCE.release()
                FIRST.set()
                threading.Event().wait()


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _run(number: int, job: str, step: str, hit: int, options: list[str]) -> None:
    code: Any = None
    AT_ONCE.acquire()
    try:
        code = import_module(job).main(options, probe=_Stands(number, step, hit))
    finally:
        FIRST.set()
        _say(f"ended {number} {job} {step} {code}")


def main() -> None:
    from jobs.session import build_session

    jobs: list[list[Any]] = json.load(sys.stdin)
    cache = Path(os.environ["LAKELOG_CACHE"])
    build_session("jobs that stand", master="local[2]", cache_dir=cache, extra=INTERPRETED)
    threads = [threading.Thread(target=_run, args=(number, *each)) for number, each in enumerate(jobs)]
    for thread in threads:
        thread.start()
        FIRST.wait()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
