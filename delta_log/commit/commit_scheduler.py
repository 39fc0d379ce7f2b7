"""The commit scheduler: threads that commit each table when it is due."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from delta_log.model.errors import Closed, LakelogError, NotOwner, OutcomeUnknown, StorageRefused, TopicClosed
from delta_log.runtime.file_budget import FileBudget, due_at
from delta_log.topics.topic_state import TopicState

_log = logging.getLogger(__name__)
_RETRY_S = 1.0


class CommitScheduler:
    """Schedules table commits. `notice` is called after every write; all other work runs in threads of its own.

    `table` commits about the given number of pending bytes of a table, and returns whether more are pending.
    """

    def __init__(
        self,
        table: Callable[[TopicState, int], bool],
        *,
        workers: int,
        files_per_second: float,
        lost_ownership: Callable[[LakelogError], None],
    ) -> None:
        self._table = table
        self._lost_ownership = lost_ownership
        self._budget = FileBudget(files_per_second, files_per_second)
        self._due: list[tuple[float, int, TopicState]] = []
        self._order = itertools.count()
        self._wake = threading.Condition()
        self._running = 0
        self._stopping = False
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="lakelog-table")
        self._workers = workers
        self._thread = threading.Thread(target=self._run, name="lakelog-tabler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def notice(self, live: TopicState) -> None:
        """Schedule a commit of a table that has pending rows."""
        due = live.due
        if due is not None and live.waiting < live.config.commit_bytes and not live.table_waiters:
            return
        now = time.monotonic()
        at = due_at(
            now,
            live.last_commit,
            interval=live.config.commit_interval_ms / 1000,
            waiting=live.waiting,
            commit_bytes=live.config.commit_bytes,
            wanted=bool(live.table_waiters),
        )
        with self._wake:
            if live.due is None or at < live.due:
                self._schedule(live, at)

    def bring_up(self, live: TopicState) -> None:
        """Commit all pending rows of a table in the caller's thread, and take ownership of it.

        Rows acknowledged meanwhile are left for later: otherwise this would not end while others keep writing.
        """
        with live.committing:
            ends = [(tail, tail.high_watermark) for tail in live.tails]
            try:
                while not live.deleted and (not live.owned or any(tail.table_offset < end for tail, end in ends)):
                    self._table(live, live.config.commit_bytes)
            except NotOwner as error:
                self._lost_ownership(error)
                raise

    def stop(self, lives: list[TopicState]) -> bool:
        """Finish running commits, commit the rest; True if every table is complete."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(wait=True)
        complete = True
        for live in lives:
            try:
                if live.pending and live.closed is None:
                    self.bring_up(live)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other tables must be committed
                _log.error("the table of %s stays behind its journal: %s", live.name, error)
            live.fail_waiters(Closed())
            complete = complete and not live.pending
        return complete

    def _schedule(self, live: TopicState, at: float) -> None:
        live.due = at
        heapq.heappush(self._due, (at, next(self._order), live))
        self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                live = self._next_due()
                if live is None:
                    return
                self._running += 1
            self._pool.submit(self._commit, live)

    def _next_due(self) -> TopicState | None:
        """Wait for a due table and a free worker; None when stopping."""
        while not self._stopping:
            now = time.monotonic()
            while self._due and self._due[0][2].due != self._due[0][0]:
                heapq.heappop(self._due)
            free_at = self._budget.free_at(now)
            at = max(self._due[0][0], free_at) if self._due else None
            if at is not None and at <= now and self._running < self._workers:
                live = heapq.heappop(self._due)[2]
                live.due = float("-inf")
                return live
            busy = self._running >= self._workers
            self._wake.wait(None if at is None or busy else max(0.0, at - now))
        return None

    def _commit(self, live: TopicState) -> None:
        delay = 0.0
        try:
            with live.committing:
                self._table(live, 4 * live.config.commit_bytes)
        except (StorageRefused, OutcomeUnknown) as error:
            delay = _RETRY_S
            _log.warning("the table of %s must wait: %s", live.name, error)
        except NotOwner as error:
            self._lost_ownership(error)
            delay = float("inf")
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not stop the other tables
            live.close(error if isinstance(error, LakelogError) else _unforeseen(live, error))
            delay = float("inf")
            if not live.deleted:
                _log.error("topic %s is closed: %s", live.name, error, exc_info=not isinstance(error, LakelogError))
        self._after(live, delay)

    def _after(self, live: TopicState, delay: float) -> None:
        now = time.monotonic()
        with self._wake:
            self._running -= 1
            self._budget.spend(live.partitions, now)
            live.due = None
            if live.is_dirty and delay != float("inf"):
                interval = max(delay, live.config.commit_interval_ms / 1000)
                at = due_at(
                    now,
                    live.last_commit if not delay else now,
                    interval=interval,
                    waiting=0 if delay else live.waiting,
                    commit_bytes=live.config.commit_bytes,
                    wanted=bool(live.table_waiters) and not delay,
                )
                self._schedule(live, at)
            self._wake.notify_all()


def _unforeseen(live: TopicState, error: Exception) -> TopicClosed:
    return TopicClosed(live.name, repr(error))
