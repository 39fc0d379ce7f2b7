"""Jobs of one process and one JVM that stand still, each at a step of its own, until all of it is killed at once.

    kill_at([Standing("jobs.consume", "consume.put", 2, ["--group", …]), …])

So a start of Spark is paid once for any number of steps; what is killed is the driver, its JVM and what they have in
hand. By its fate a job stands where a Python worker of its executors does; or one dies on the way, and it goes on. As a
program it takes the jobs as JSON from its standard input, and says of each when it stands, or ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import asdict
from importlib import import_module
from typing import IO, Any, NamedTuple

from delta_log.runtime.syscalls import no_probe
from tests.architecture.project_files import ROOT
from tests.support.executor_fates import Fate
from tests.support.processes import descendants, running
from tests.support.serving import wait_for

#: Six times of what it takes: a JVM, and twenty jobs in it.
SECONDS = 600
#: Of a story that is told.
PIECE = 10_000
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
    fate: Fate | None = None

    @property
    def on_executor(self) -> bool:
        return self.fate is not None and self.fate.kind != "dies"


def kill_at(jobs: Sequence[Standing]) -> set[int]:
    """Run them until each stands at its step; then SIGKILL for the driver and the JVM.

    Their Python workers have a process group of their own: this waits until they noticed. Answers those that are late.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.standing_jobs"],
        cwd=ROOT,
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
    stand = False
    try:
        assert process.stdin is not None
        process.stdin.write(json.dumps([_told(each) for each in jobs]))
        process.stdin.close()
        wait_for(lambda: len(_stand(said["out"])) == len(jobs) or _ended(said["out"]), "that all stand", SECONDS)
        assert not _ended(said["out"])
        stand = True
    except AssertionError as error:
        missing = [jobs[n] for n in range(len(jobs)) if n not in _stand(said["out"])]
        raise AssertionError(f"{error}\n{missing}\n{''.join(said['out'])}\n{_shortened(said['err'])}") from None
    finally:
        workers = descendants(process.pid)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        if not stand:
            end(workers)
        for reader in readers:
            reader.join()
    late = {each.fate.pid for each in jobs if each.fate is not None and each.fate.kind == "late"} & workers
    try:
        wait_for(lambda: running(workers) <= late, "that the Python workers end")
    except AssertionError:
        end(workers)
        raise
    return late


def end(pids: Iterable[int]) -> None:
    for pid in running(pids):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _told(job: Standing) -> list[Any]:
    return [*job[:3], list(map(str, job.options)), None if job.fate is None else asdict(job.fate)]


def _stand(said: Sequence[str]) -> set[int]:
    return {int(line.split()[1]) for line in list(said) if line.startswith("stands ")}


def _ended(said: Sequence[str]) -> list[str]:
    return [line for line in list(said) if line.startswith("ended ")]


def _shortened(said: Sequence[str]) -> str:
    """What came first says why, and what came last what was under way."""
    story = "".join(said)
    return story if len(story) <= 2 * PIECE else f"{story[:PIECE]}\n…\n{story[-PIECE:]}"


def _read(stream: IO[str] | None, into: list[str]) -> None:
    if stream is not None:
        with stream:
            for line in stream:
                into.append(line)  # noqa: PERF402 - others look at it meanwhile


class _Stands:
    """The probe of one of them."""

    def __init__(self, number: int, job: Standing) -> None:
        self._number, self._step, self._left, self._fate = number, job.step, job.hit, job.fate

    def __call__(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                self._stand()
                threading.Event().wait()

    def __reduce__(self) -> Any:
        """What goes to an executor is the worker's fate, if it has one."""
        return copy, (self._fate or no_probe,)

    def look_after_worker(self) -> None:
        wait_for(lambda: self._fate is not None and self._fate.pid, "that a worker stands", SECONDS)
        self._stand()

    def _stand(self) -> None:
        _say(f"stands {self._number}")
        AT_ONCE.release()
        FIRST.set()


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def _run(number: int, job: Standing) -> None:
    code: Any = None
    AT_ONCE.acquire()
    probe = _Stands(number, job)
    if job.on_executor:
        threading.Thread(target=probe.look_after_worker, daemon=True).start()
    try:
        code = import_module(job.job).main(job.options, probe=probe)
    finally:
        FIRST.set()
        _say(f"ended {number} {job.job} {job.step} {code}")


def main() -> None:
    from jobs.spark.session import build_session

    jobs = [Standing(*each, fate=fate and Fate(**fate)) for *each, fate in json.load(sys.stdin)]
    # A worker that stands has a core; one that died is followed by another, as on a cluster.
    cores, tries = 2 + sum(job.on_executor for job in jobs), 1 + any(job.fate and not job.on_executor for job in jobs)
    build_session("jobs that stand", master=f"local[{cores},{tries}]", extra=INTERPRETED)
    threads = [threading.Thread(target=_run, args=each) for each in enumerate(jobs)]
    for thread in threads:
        thread.start()
        FIRST.wait()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
