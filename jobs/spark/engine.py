"""Engines that do a job's work: threads of this process, or the executors of a Spark cluster.

    for answer in engine.map(function, works): …       answers as they come; the caller commits them

It knows neither tables nor plans. A function and its works are sent to executors: they are module-level names, or plain
values. Works are taken a few at a time, so that the caller can leave out those no longer worth doing.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import threading
import uuid
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal, Protocol, TypeVar

from delta_log.model.errors import NotAvailable
from jobs.foundation.threads import in_threads
from jobs.spark.failure_causes import cause_of, in_words, is_of_spark, why_not_begun
from jobs.spark.jvm import end_half_begun, end_session, hear_no_end, hear_no_traces
from jobs.spark.shared_session import OpenSession, Sessions
from jobs.spark.shuffle import Gather, Spread, cancel, exchange_by_spark, exchange_in_threads

__all__ = ["ENGINES", "Engine", "LocalEngine", "SparkEngine", "has_spark", "open_engine", "open_session"]

EngineName = Literal["local", "spark"]
ENGINES: Final[tuple[EngineName, ...]] = ("local", "spark")
_MOST_LOCAL: Final = 4
_MOST_TASKS: Final = 64
#: Sessions of this process, of which Spark allows one.
_SESSIONS: Final = Sessions(end_session)
W = TypeVar("W")
R = TypeVar("R")


class Engine(Protocol):
    """An engine with `workers` in parallel; `close` releases what was started for the job, and nothing else.

    `exchange` spreads works into numbered buckets, and then gathers each bucket in one worker.
    """

    @property
    def workers(self) -> int: ...

    def map(self, function: Callable[[W], R], works: Iterable[W]) -> Generator[R]: ...

    def exchange(self, spread: Spread[W], works: Iterable[W], gather: Gather[R], buckets: int) -> Generator[R]: ...

    def close(self) -> None: ...


class LocalEngine:
    """Engine of threads: reading and writing parquet releases the GIL."""

    def __init__(self) -> None:
        self.workers = max(1, min(_MOST_LOCAL, os.cpu_count() or 1))

    def map(self, function: Callable[[W], R], works: Iterable[W]) -> Generator[R]:
        return in_threads(function, works, self.workers)

    def exchange(self, spread: Spread[W], works: Iterable[W], gather: Gather[R], buckets: int) -> Generator[R]:
        return exchange_in_threads(spread, works, gather, buckets, self.workers)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


class SparkEngine:
    """Engine with one Spark job of one task for each work, so that an answer does not wait for others."""

    def __init__(self, app_name: str, master: str | None) -> None:
        self._session = _session(app_name, master)
        try:
            self._context = self._session.spark.sparkContext
            self.workers = max(1, min(_MOST_TASKS, self._context.defaultParallelism))
        except BaseException:
            self._session.close()
            raise
        self._group = f"{app_name} {uuid.uuid4().hex}"

    def map(self, function: Callable[[W], R], works: Iterable[W]) -> Generator[R]:
        context, group = self._context, self._group

        def call(work: W) -> R:
            with in_words():
                context.setJobGroup(group, group, interruptOnCancel=True)
                (answer,) = context.parallelize([work], 1).map(function).collect()
            return answer

        return in_threads(call, works, self.workers, abandon=partial(cancel, context, group))

    def exchange(self, spread: Spread[W], works: Iterable[W], gather: Gather[R], buckets: int) -> Generator[R]:
        return exchange_by_spark(self._context, self._group, spread, works, gather, buckets, self.workers)

    def close(self) -> None:
        self._session.close()


def has_spark() -> bool:
    return importlib.util.find_spec("pyspark") is not None


def open_engine(name: EngineName, app_name: str, master: str | None = None) -> Engine:
    """Open an engine; NotAvailable if Spark is not installed or does not start."""
    if name == "local":
        return LocalEngine()
    try:
        return SparkEngine(app_name, master)
    except Exception as error:
        raise NotAvailable(f"Spark does not start ({_why(error)}); --engine local needs none") from error


def open_session(app_name: str, master: str | None = None) -> OpenSession:
    """Open a Spark session; NotAvailable if Spark is not installed or does not start."""
    try:
        return _session(app_name, master)
    except Exception as error:
        raise NotAvailable(f"Spark does not start: {_why(error)}") from error


def _why(error: Exception) -> str:
    """Reason of a failed start; without pyspark, errors of Spark cannot be recognized."""
    if not isinstance(error, ImportError) and is_of_spark(error):
        return cause_of(error)
    return next(iter(str(error).splitlines()), "") or type(error).__name__


def _session(app_name: str, master: str | None) -> OpenSession:
    """Return an existing session, as on a cluster or in a notebook, else one that jobs of this process share."""

    def build() -> Any:
        from jobs.spark.session import build_session  # noqa: PLC0415 - a job without Spark must not need it

        hear_no_traces()
        try:
            with _keeping_signals():
                session = build_session(app_name, master=master or "local[*]")
        except BaseException as error:
            end_half_begun()
            if isinstance(error, Exception) and (why := why_not_begun(str(error), master)):
                raise NotAvailable(why) from error
            raise
        hear_no_end(session)
        return session

    return _SESSIONS.open(_find_session, build)


@contextmanager
def _keeping_signals() -> Generator[None]:
    """Restore the handler of Ctrl-C, which Spark replaces to cancel its jobs."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)


def _find_session() -> Any:
    from pyspark import SparkContext  # noqa: PLC0415 - a job without Spark must not need it
    from pyspark.sql import SparkSession  # noqa: PLC0415 - likewise

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    # The active session is visible only in the thread that made it; the process has one context for all threads.
    there = SparkContext._active_spark_context is not None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    if there or "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return SparkSession.builder.getOrCreate()
    return None
