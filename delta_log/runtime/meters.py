"""Meters of a running log: plain counters that are updated cheaply, and frozen copies of them.

Updates come from one thread at a time, or hold the meter's lock; a reader may see one sum a little older than another.
Knows numbers; must not know where they come from or where they are shown.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

Job = Literal["upkeep", "fold", "checkpoint", "cleanup", "retention"]
JOBS: Final[tuple[Job, ...]] = ("upkeep", "fold", "checkpoint", "cleanup", "retention")

#: Outcomes of a transaction.
OUTCOMES: Final = ("committed", "aborted", "fenced", "timed_out")

#: From a sync answered by a cache to one that takes seconds on a failing disk.
SYNC_BOUNDS_S: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
COMMIT_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
GROUP_BOUNDS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 1024.0, 4096.0)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distribution of values: `counts[i]` of them are above `bounds[i - 1]` and not above `bounds[i]`."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        return sum(self.counts)


class Histogram:
    """A distribution that is being collected. Where a call costs too much, `add` may be inlined."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def freeze(self) -> Distribution:
        return Distribution(self.bounds, tuple(self.counts), self.total)


@dataclass(frozen=True, slots=True)
class JobStatistics:
    """The runs of one kind of maintenance job since the start. Times are None before the first run."""

    job: Job
    succeeded: int = 0
    failed: int = 0
    last_success_ms: int | None = None
    last_failure_ms: int | None = None
    last_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class TopicStatistics:
    """Statistics of an open table. `lag_s` is the age of its oldest acknowledged record that is not in it yet."""

    topic: str
    partitions: int
    files: int
    untabled_bytes: int
    lag_s: float
    overdue_bytes: int
    overdue_ms: int


@dataclass(frozen=True, slots=True)
class TransactionStatistics:
    """Statistics of transactions: `held_bytes` are in memory and in files; `ended` counts them by outcome."""

    open: int = 0
    held_bytes: int = 0
    oldest_s: float = 0.0
    ended: tuple[tuple[str, int], ...] = tuple((outcome, 0) for outcome in OUTCOMES)


@dataclass(frozen=True, slots=True)
class LogStatistics:
    """A log at one moment. `refuses`: why nothing can be written; `closed`: the closed topics, with reasons."""

    epoch: int
    refuses: str | None
    ownership_lost: bool
    waiting: int
    untabled_bytes: int
    tail_bytes: int
    producers: int
    journal_seconds: Distribution
    journal_failures: int
    journal_mended: int
    group_requests: Distribution
    commit_seconds: Distribution
    commit_failures: int
    topics: tuple[TopicStatistics, ...]
    closed: dict[str, str]
    jobs: tuple[JobStatistics, ...]
    transactions: TransactionStatistics = TransactionStatistics()
    disk_full: bool = False
    ballast_bytes: int = 0


class JournalMeter:
    """Meter of the one thread that writes the journal."""

    __slots__ = ("_failed_at", "_failing", "failures", "requests", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(SYNC_BOUNDS_S)
        self.requests = Histogram(GROUP_BOUNDS)
        self.failures = 0
        self._failing: str | None = None
        self._failed_at = 0.0

    def wrote(self, seconds: float, requests: int) -> None:
        self.seconds.add(seconds)
        self.requests.add(requests)
        self._failing = None

    def failed(self, why: str, now: float) -> None:
        self._failed_at, self._failing = now, why
        self.failures += 1

    def failing(self, now: float, *, within_s: float, since: float = float("-inf")) -> str | None:
        """Why the newest write failed, for a limited time: only another write shows whether it works again.

        Failures before `since` were repaired at that time.
        """
        why, at = self._failing, self._failed_at
        return why if why is not None and now - at < within_s and at >= since else None


class CommitMeter:
    """Meter of all threads that commit tables."""

    __slots__ = ("_lock", "failures", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(COMMIT_BOUNDS_S)
        self.failures = 0
        self._lock = threading.Lock()

    @contextmanager
    def commit(self) -> Generator[None]:
        began = time.perf_counter()
        try:
            yield
        except BaseException:
            with self._lock:
                self.failures += 1
            raise
        with self._lock:
            self.seconds.add(time.perf_counter() - began)


class Run:
    """A running job; code that swallows an error sets `failed`."""

    __slots__ = ("failed",)

    def __init__(self) -> None:
        self.failed = False


class JobMeter:
    """Meter of all threads that run maintenance jobs."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._jobs: dict[Job, JobStatistics] = {job: JobStatistics(job) for job in JOBS}

    @contextmanager
    def run(self, job: Job) -> Generator[Run]:
        run, began = Run(), time.perf_counter()
        try:
            yield run
        except BaseException:
            run.failed = True
            raise
        finally:
            self._ended(job, time.perf_counter() - began, failed=run.failed)

    def freeze(self) -> tuple[JobStatistics, ...]:
        return tuple(self._jobs.values())

    def _ended(self, job: Job, seconds: float, *, failed: bool) -> None:
        now_ms = self._clock_ms()
        with self._lock:
            last = self._jobs[job]
            self._jobs[job] = JobStatistics(
                job,
                last.succeeded + (not failed),
                last.failed + failed,
                last.last_success_ms if failed else now_ms,
                now_ms if failed else last.last_failure_ms,
                seconds,
            )
