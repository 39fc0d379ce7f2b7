"""The door to transactions: begin, append, commit or abort, from threads and, to commit, from event loops.

    begun = log.transactions.begin("copier")
    log.transactions.append(begun.id, "orders", records)
    committed = log.transactions.commit(begun.id)

Nothing of an open transaction is stored, so nothing has to be undone. A commit is one unit of the journal: the records
of all topics, what the caller stores beside them, and the row that says so. Until that is durable the transaction is
not committed, and a server that begins anew knows nothing of it.
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

#: How often what is kept of decisions is looked through.
_FORGET_EVERY_MS: Final = 600_000

#: Has a commit stored, as part of a unit; answers what became of its appends.
Store = Callable[[Commit], Awaitable[Sequence[Appended]]]


class Transactions:
    """Of a log that is owned."""

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
        """How many have neither been committed nor aborted."""
        return len(self._standing.open)

    def open_names(self) -> set[str]:
        """The transactional ids of these."""
        return {each.key.transactional_id for each in self._standing.open.all()}

    @property
    def held_bytes(self) -> int:
        """What these hold, in memory and in files, with what it takes of memory."""
        return self._standing.held_bytes

    def statistics(self) -> TransactionStatistics:
        """All of them in numbers."""
        return self._standing.measure()

    def begin(self, transactional_id: str, timeout_ms: int | None = None, version: int | None = None) -> Begun:
        """Open the next epoch of a transactional id: what its holders before had not committed is aborted.

        A `version` is committed once: whoever begins it while it is open is given the same transaction, and
        VersionDecided says that it, or a higher one, was committed.
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
        """Check records, and keep them. `producer` numbers them in this transaction, stage and topic.

        So a repeat is known; of one in a stage by its number and count. The commit may say which stages count.
        """
        return self._taking.take(self._standing.find(transaction), topic, records, producer, stage)

    def add(self, transaction: str, addition: Addition) -> None:
        """What the caller stores with the commit, joined with what has its name already. It is a part of its size."""
        self._taking.add(self._standing.find(transaction), addition)

    def check(self, transaction: str) -> None:
        """Raise where nothing can be added to it."""
        found = self._standing.find(transaction)
        with found.lock:
            self._standing.check_open(found)

    def commit(self, transaction: str, stages: Sequence[str] | None = None) -> Committed:
        """Have all of it become visible, or raise why not; where it was committed before, the first answer again.

        With `stages` only these count, in this order, and what is in none. One to which anything was added is refused:
        `commit_async` stores that.
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
        """The same for a loop. Where anything was added, `store` makes it part of another unit, and has to be there.

        What that raises is why it was not stored. Whoever stops waiting changes nothing.
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
        """Forget all of it. It may be repeated; TransactionDecided where it was committed."""
        self._standing.check_writable()
        found = self._standing.open.get(transaction)
        if found is not None and not self._standing.has_ended(found):
            self._standing.abort(found, TransactionAborted(transaction, "its producer aborted it"))
        state = self.describe(transaction).state
        if state != "aborted":
            raise TransactionDecided(transaction, "committed" if state == "committed" else "being committed")

    def describe(self, transaction: str) -> Known:
        """What became of it; OutcomeUnknown where that is not kept any more, or is in doubt."""
        self._standing.check_writable()
        found = self._standing.open.get(transaction)
        if found is not None and not self._standing.has_ended(found):
            if self._standing.in_doubt(found):
                raise OutcomeUnknown(f"transaction {transaction}", "a commit of it may be stored")
            return Known(transaction, "open")
        return self._standing.past(transaction)

    def expire(self) -> None:
        """Abort those whose time is over, and forget decisions that are kept no longer."""
        standing = self._standing
        for each in standing.open.all():
            standing.has_ended(each)
        now_ms = self._clock_ms()
        if now_ms < self._forget_at_ms:
            return
        with standing.lock:  # nobody may commit under a name meanwhile that is being forgotten
            self._forget_at_ms = now_ms + _FORGET_EVERY_MS
            silent = standing.decisions.silent(now_ms - self._bounds.expiration_ms)
            open_names = {each.key.transactional_id for each in standing.open.all()}
            silent = [row for row in silent if row[0] not in open_names]
            if silent:
                self._ledger.append([(TABLE, row) for row in silent])
                standing.decisions.forget(silent)

    def complete(self) -> None:
        """Say in the table whose time was over, and which versions of the topics' tables have what was committed.

        As far as they do by now.
        """
        self._keep_overtime()
        self._completing.run()

    def _keep_overtime(self) -> None:
        """So that it can be said after a restart, too."""
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
        """The log is closed: what is open is forgotten."""
        for each in self._standing.open.all():
            self._standing.abort(each, TransactionAborted(each.key.id, "the log was closed"))
            if each.spill is not None:  # also of one whose outcome nobody will learn here
                each.spill.close()
