"""Who does a job's work: threads of this process, or the executors of a Spark cluster.

    for answer in engine.map(function, works): …       answers as they come, the caller keeps what is committed

It knows neither tables nor plans. A function and its works travel: they are named in a module, or plain values. Only
so many works are asked for at a time, so that whoever hands them out can leave out what is no longer worth doing.
"""

from __future__ import annotations

import importlib.util
import os
import uuid
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Final, Literal, Protocol, TypeVar

from delta_log.errors import StorageRefused

__all__ = ["ENGINES", "Engine", "LocalEngine", "SparkEngine", "has_spark", "open_engine"]

EngineName = Literal["local", "spark"]
ENGINES: Final[tuple[EngineName, ...]] = ("local", "spark")
_MOST_LOCAL: Final = 4
_MOST_TASKS: Final = 64
W = TypeVar("W")
R = TypeVar("R")


class Engine(Protocol):
    """`close` lets go of what was started for the job, and of nothing else."""

    def map(self, function: Callable[[W], R], works: Iterable[W]) -> Generator[R]: ...

    def close(self) -> None: ...


class LocalEngine:
    """Threads: reading and writing parquet is done outside of Python's lock."""

    def __init__(self) -> None:
        self._workers = max(1, min(_MOST_LOCAL, os.cpu_count() or 1))

    def map(self, function: Callable[[W], R], works: Iterable[W]) -> Generator[R]:
        return _in_threads(function, works, self._workers)

    def close(self) -> None:
        """There is nothing to let go of."""


class SparkEngine:
    """A Spark job of one task for each work: an answer comes as soon as it is there, whatever the others do."""

    def __init__(self, app_name: str, master: str | None) -> None:
        self._session, self._ours = _session(app_name, master)
        self._context = self._session.sparkContext
        self._workers = max(1, min(_MOST_TASKS, self._context.defaultParallelism))
        self._group = f"{app_name} {uuid.uuid4().hex}"

    def map(self, function: Callable[[W], R], works: Iterable[W]) -> Generator[R]:
        context, group = self._context, self._group

        def call(work: W) -> R:
            context.setJobGroup(group, group, interruptOnCancel=True)
            (answer,) = context.parallelize([work], 1).map(function).collect()
            return answer

        return _in_threads(call, works, self._workers, abandon=lambda: context.cancelJobGroup(group))

    def close(self) -> None:
        if self._ours:
            self._session.stop()


def has_spark() -> bool:
    return importlib.util.find_spec("pyspark") is not None


def open_engine(name: EngineName, app_name: str, master: str | None = None) -> Engine:
    """StorageRefused where Spark is not there or does not start."""
    if name == "local":
        return LocalEngine()
    try:
        return SparkEngine(app_name, master)
    except Exception as error:
        why = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise StorageRefused("Spark", f"it does not start ({why}); --engine local needs none") from error


def _session(app_name: str, master: str | None) -> tuple[Any, bool]:
    """The session that there is already, as on a cluster or in a notebook, else one of our own; whether it is that."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - a job without Spark must not need it

    active = SparkSession.getActiveSession()
    if active is not None:
        return active, False
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return SparkSession.builder.getOrCreate(), False
    from jobs.session import build_session  # noqa: PLC0415 - likewise

    return build_session(app_name, master=master or "local[*]"), True


def _in_threads(
    function: Callable[[W], R], works: Iterable[W], workers: int, *, abandon: Callable[[], None] = lambda: None
) -> Generator[R]:
    """Twice as many works as there are workers are on their way: nobody waits, and little is done in vain."""
    following = iter(works)
    pool = ThreadPoolExecutor(workers, thread_name_prefix="lakelog-job")
    pending: set[Future[R]] = set()
    try:
        while True:
            while len(pending) < 2 * workers:
                try:
                    work = next(following)
                except StopIteration:
                    break
                pending.add(pool.submit(function, work))
            if not pending:
                return
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for each in done:
                yield each.result()
    except BaseException:
        abandon()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
