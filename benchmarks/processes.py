"""Fresh processes, so that one measurement does not inherit the memory, threads and garbage of another.

Always spawned: deltalake does not survive a fork.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
MB = 1_000_000
_SPAWN = get_context("spawn")


def run_fresh(function: Callable[..., T], *arguments: Any) -> T:
    """The function's answer, from a process of its own."""
    with ProcessPoolExecutor(1, mp_context=_SPAWN) as pool:
        return pool.submit(function, *arguments).result()


def run_until_killed(function: Callable[..., None], *arguments: Any) -> None:
    """For a function that ends with `die`: nothing of its process was closed or flushed."""
    process = _SPAWN.Process(target=function, args=arguments)
    process.start()
    process.join()
    if process.exitcode != -signal.SIGKILL:
        raise RuntimeError(f"the process was to be killed, but ended with {process.exitcode}")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Worker:
    """A process that answers one question after the other: `serve(connection, *arguments)` runs in it."""

    def __init__(self, serve: Callable[..., None], *arguments: Any) -> None:
        self._connection, theirs = _SPAWN.Pipe()
        self._process: BaseProcess = _SPAWN.Process(target=_serve, args=(serve, theirs, *arguments))
        self._process.start()
        theirs.close()

    def ask(self, *question: Any) -> Any:
        self._connection.send(question)
        answer = self._connection.recv()
        if isinstance(answer, Failed):
            raise answer
        return answer

    @contextmanager
    def paused(self) -> Generator[None]:
        """What it does in the background does not count meanwhile."""
        pid = self._process.pid
        if pid is None:
            raise RuntimeError("the process was never started")
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        self._connection.close()
        self._process.join()


class Failed(Exception):
    """What went wrong in the other process, which has said more on standard error."""


def _serve(serve: Callable[..., None], connection: Connection, *arguments: Any) -> None:
    try:
        serve(connection, *arguments)
    except EOFError:
        return
    except Exception as error:
        connection.send(Failed(repr(error)))
        raise


def resident_mb() -> float:
    """Memory of this process that is in RAM now; its maximum where the system does not tell more."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / MB if sys.platform == "darwin" else peak * 1024 / MB
    return pages * resource.getpagesize() / MB
