"""The API of transactions: begin, append, commit or abort, from threads and, to commit, from event loops.

    begun = log.transactions.begin("copier")
    log.transactions.append(begun.id, "orders", records)
    committed = log.transactions.commit(begun.id)

Nothing of an open transaction is stored, so nothing has to be undone. A commit is one unit of the journal: the records
of all topics, the caller's additions, and the row of the decision. Until the unit is durable the transaction is not
committed, and a restarted server knows nothing of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Final

from delta_log.append.group_commit import Writer
from delta_log.keyed import Ledger
from delta_log.model.errors import OutcomeUnknown, TransactionAborted, TransactionDecided
from delta_log.model.transaction_bounds import Bounds
from delta_log.model.types import Appended, ProducerStamp
from delta_log.runtime.meters import TransactionStatistics
from delta_log.topics.topic_state import TopicState
from delta_log.transactions.add_records import Prepare, RecordIntake
from delta_log.transactions.begin import Beginning
from delta_log.transactions.buffered_records import Staged
from delta_log.transactions.commit import Committing
from delta_log.transactions.completion import Completing
from delta_log.transactions.registry import TransactionRegistry
from delta_log.transactions.transaction import Addition, Begun, Commit, Known, Transaction
from delta_log.transactions.transaction_log import TABLE, Committed, Decisions

#: Interval of the search for decisions to forget.
_FORGET_EVERY_MS: Final = 600_000

#: Stores a commit as part of a unit; returns the results of its appends.
Store = Callable[[Commit], Awaitable[Sequence[Appended]]]


class Transactions:
    """The transactions of a root, in its owner."""

    def __init__(
        self,
        writer: Writer,
        ledger: Ledger,
        prepare: Prepare,
        own_producers: Callable[[], TopicState],
        bounds: Bounds,
        clock_ms: Callable[[], int],
        spill_directory: Path | None,
        find: Callable[[str], TopicState],
    ) -> None:
        self._ledger = ledger
        self._bounds = bounds
        self._clock_ms = clock_ms
        self._standing = standing = TransactionRegistry(writer, Decisions(ledger.load(TABLE)), bounds, clock_ms)
        self._beginning = Beginning(standing, writer, ledger, own_producers, bounds, clock_ms, self.expire)
        self._taking = RecordIntake(standing, prepare, bounds, spill_directory)
        self._committing = Committing(standing, ledger, clock_ms)
        self._completing = Completing(standing, ledger, find)
        self._storing: set[asyncio.Task[Committed]] = set()
        self._forget_at_ms = clock_ms() + _FORGET_EVERY_MS

    @property
    def open_count(self) -> int:
        """Number of transactions that are neither committed nor aborted."""
        return len(self._standing.open)

    def open_names(self) -> set[str]:
        """The transactional ids of open transactions."""
        return {each.key.transactional_id for each in self._standing.open.all()}

    @property
    def held_bytes(self) -> int:
        """Bytes that open transactions hold, in memory and in spills, with their overhead in memory."""
        return self._standing.held_bytes

    def statistics(self) -> TransactionStatistics:
        """Counts of transactions for metrics."""
        return self._standing.measure()

    def begin(self, transactional_id: str, timeout_ms: int | None = None, version: int | None = None) -> Begun:
        """Open the next epoch of a transactional id; uncommitted transactions of its earlier epochs are aborted.

        A `version` is committed once: beginning it while it is open returns the same transaction, and VersionDecided
        is raised if it, or a higher one, was committed.
        """
        return self._beginning.begin(transactional_id, timeout_ms, version)

    def append(
        self,
        transaction: str,
        topic: str,
        records: Any,
        producer: ProducerStamp | None = None,
        stage: str | None = None,
    ) -> Staged:
        """Check and buffer records. `producer` numbers them in this transaction, stage and topic.

        By the number a repeat is recognized; in a stage by number and count. The commit may choose stages.
        """
        return self._taking.take(self._standing.find(transaction), topic, records, producer, stage)

    def add(self, transaction: str, addition: Addition) -> None:
        """Add data to store with the commit, joined with an addition of the same name. It counts towards the size."""
        self._taking.add(self._standing.find(transaction), addition)

    def check(self, transaction: str) -> None:
        """Raise if nothing can be added to the transaction."""
        found = self._standing.find(transaction)
        with found.lock:
            self._standing.check_open(found)

    def commit(self, transaction: str, stages: Sequence[str] | None = None) -> Committed:
        """Commit the transaction, or raise the reason why not; a repeat returns the first answer.

        With `stages`, records outside of stages and in these are committed, these in this order. A transaction with
        additions is refused: `commit_async` stores those.
        """
        step = self._committing.start(transaction, stages, stores_additions=False)
        if not isinstance(step, tuple):
            return step if isinstance(step, Committed) else step.result()
        found, commit = step
        try:
            self._ledger.append([], commit.appends, decide=commit.decide)
        except BaseException as error:
            raise self._committing.not_stored(found, error) from error
        return self._committing.stored(found)

    async def commit_async(
        self, transaction: str, store: Store | None = None, stages: Sequence[str] | None = None
    ) -> Committed:
        """Commit from an event loop. `store` is required for additions: it makes the commit a part of a larger unit.

        An exception of `store` is the reason why it was not stored. A cancelled caller does not stop the commit.
        """
        found = self._standing.open.get(transaction)
        busy = found is not None and found.lock.locked()
        start = partial(self._committing.start, transaction, stages, stores_additions=store is not None)
        step = await asyncio.to_thread(start) if busy else start()
        if isinstance(step, Committed):
            return step
        if isinstance(step, Future):
            return await asyncio.wrap_future(step)
        storing = asyncio.ensure_future(self._store(*step, store))
        self._storing.add(storing)
        storing.add_done_callback(self._storing.discard)
        return await asyncio.shield(storing)

    async def _store(self, found: Transaction, commit: Commit, store: Store | None) -> Committed:
        try:
            if store is None or not commit.additions:
                await self._ledger.queue_up([], commit.appends, decide=commit.decide, in_line=False)
            else:
                await store(commit)
        except BaseException as error:
            raise self._committing.not_stored(found, error) from error
        return self._committing.stored(found)

    def abort(self, transaction: str) -> None:
        """Abort the transaction. May be repeated; TransactionDecided if it was committed."""
        self._standing.check_writable()
        found = self._standing.open.get(transaction)
        if found is not None and not self._standing.has_ended(found):
            self._standing.abort(found, TransactionAborted(transaction, "its producer aborted it"))
        state = self.describe(transaction).state
        if state != "aborted":
            raise TransactionDecided(transaction, "committed" if state == "committed" else "being committed")

    def describe(self, transaction: str) -> Known:
        """The state of the transaction; OutcomeUnknown if it is no longer kept, or in doubt."""
        self._standing.check_writable()
        found = self._standing.open.get(transaction)
        if found is not None and not self._standing.has_ended(found):
            if self._standing.in_doubt(found):
                raise OutcomeUnknown(f"transaction {transaction}", "a commit of it may be stored")
            return Known(transaction, "open")
        return self._standing.past(transaction)

    def expire(self) -> None:
        """Abort transactions past their deadline, and forget expired decisions."""
        standing = self._standing
        for each in standing.open.all():
            standing.has_ended(each)
        now_ms = self._clock_ms()
        if now_ms < self._forget_at_ms:
            return
        with standing.lock:  # meanwhile no commit may use a transactional id that is being forgotten
            self._forget_at_ms = now_ms + _FORGET_EVERY_MS
            silent = standing.decisions.silent(now_ms - self._bounds.expiration_ms)
            open_names = {each.key.transactional_id for each in standing.open.all()}
            silent = [row for row in silent if row[0] not in open_names]
            if silent:
                self._ledger.append([(TABLE, row) for row in silent])
                standing.decisions.forget(silent)

    def complete(self) -> None:
        """Store which transactions timed out, and which versions of tables have the committed records.

        A transaction whose records are not in all tables yet waits for a later call.
        """
        self._keep_overtime()
        self._completing.run()

    def _keep_overtime(self) -> None:
        """Store timeouts, so that they are known after a restart."""
        standing = self._standing
        with standing.lock:
            keys = list(standing.overtime)
        rows = standing.decisions.overtime_rows(keys, self._clock_ms())
        if rows:
            self._ledger.own_tables()
            self._ledger.append([(TABLE, row) for row in rows])
        with standing.lock:
            for row in rows:
                standing.decisions.replay(row)
            for key in keys:
                standing.overtime.pop(key, None)

    def close(self) -> None:
        """Abort all open transactions, because the log is closed."""
        for each in self._standing.open.all():
            self._standing.abort(each, TransactionAborted(each.key.id, "the log was closed"))
            if each.spill is not None:  # also of one whose outcome stays unknown in this process
                each.spill.close()
