"""Commits a transaction: prepares the unit, decides in its turn in the commit queue, and records the outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from delta_log.append.append_unit import Decide, EncodedRows, Prepared
from delta_log.keyed import Ledger
from delta_log.model.errors import (
    LakelogError,
    NotAvailable,
    OutcomeUnknown,
    TransactionDecided,
    TransactionError,
    TransactionFenced,
    VersionDecided,
)
from delta_log.model.quoting import quoted
from delta_log.model.types import Appended
from delta_log.records.idempotence import Producers, is_later
from delta_log.transactions.registry import TransactionRegistry
from delta_log.transactions.transaction import Commit, Transaction
from delta_log.transactions.transaction_log import MOST_REQUESTS, TABLE, Committed, Stored, merge_ranges, row_of


class Committing:
    """Commits in steps. The caller of `start` stores the commit, then calls `stored` or `not_stored`."""

    def __init__(self, standing: TransactionRegistry, ledger: Ledger, clock_ms: Callable[[], int]) -> None:
        self._standing = standing
        self._ledger = ledger
        self._clock_ms = clock_ms

    def start(
        self, transaction: str, stages: Sequence[str] | None = None, *, stores_additions: bool = True
    ) -> Committed | Future[Committed] | tuple[Transaction, Commit]:
        """Start a commit; nothing can be added any more unless it fails.

        Returns the answer, or the future of a commit under way, or the commit that the caller must store.
        """
        self._standing.check_writable()
        found = self._standing.open.get(transaction)
        if found is None:
            known = self._standing.past(transaction)
            if known.committed is None:
                raise known.why or TransactionDecided(transaction, known.state)
            return known.committed
        with found.lock:
            if found.deciding is not None:
                return found.deciding
            if found.ended or not self._standing.in_doubt(found):
                self._standing.check_open(found)
            if found.additions and not stores_additions:
                raise TransactionError(f"nobody stores what was added to {transaction}; it is open as before")
            self._check_version(found)
            spill = memoryview(b"") if found.spill is None else found.spill.view()
            appends = found.held.appends(spill, stages)
            found.deciding = _decision()
        return found, Commit(appends, self._decide(found, appends), tuple(found.additions.values()))

    def _check_version(self, found: Transaction) -> None:
        """Check, under its lock, that its version is new: another one may have committed it since this one began."""
        if found.version is None:
            return
        name = found.key.transactional_id
        with self._standing.lock:
            decided = self._standing.decisions.version(name)
            older = [each for each in self._standing.open.of_name(name) if is_later(found.key.epoch, each.key.epoch)]
        if decided is not None and found.version <= decided:
            why = VersionDecided(name, found.version, decided)
            self._standing.end(found, why)
            raise why
        if any(each.deciding is not None for each in older):
            raise NotAvailable(f"an earlier transaction of {quoted(name)} is being committed")

    def _decide(self, found: Transaction, appends: Sequence[Prepared]) -> Decide:
        now_ms, transactional_id = self._clock_ms(), found.key.transactional_id
        decisions = self._standing.decisions
        version = decisions.version(transactional_id) if found.version is None else found.version

        def decide(producers: Producers, answers: Sequence[Appended]) -> EncodedRows:
            """Decide in the unit's turn in the commit queue: a later epoch opened before it fences the transaction."""
            self._standing.try_to_commit(found)
            epoch = producers.epoch_of(transactional_id)
            if is_later(epoch, found.key.epoch):
                raise TransactionFenced(found.key.id, epoch)
            requests = tuple(
                Stored(each.live.name, each.live.id, given.ranges) for each, given in zip(appends, answers, strict=True)
            )
            told = requests if len(requests) <= MOST_REQUESTS else None
            notes = [each.note() for each in found.additions.values()]
            found.committed = Committed(found.key, merge_ranges(requests), told, notes, now_ms, version)
            return self._ledger.encode([(TABLE, row_of(found.committed))])

        return decide

    def stored(self, found: Transaction) -> Committed:
        """Note that its unit is durable."""
        committed, deciding = found.committed, found.deciding
        if committed is None or deciding is None:
            raise OutcomeUnknown(f"transaction {found.key.id}", "it was stored without its decision")
        self._standing.decided(found, committed)
        deciding.set_result(committed)
        return committed

    def not_stored(self, found: Transaction, error: BaseException) -> BaseException:
        """The error for the caller. The transaction stays open if another commit of it may succeed."""
        told, deciding = error, found.deciding
        unknown = OutcomeUnknown(f"the commit of {found.key.id}", str(error) or repr(error))
        if not isinstance(error, LakelogError):
            # Its unit may still be under way: the state stays, and there is no retry.
            self._standing.lose(found)
            told = unknown if isinstance(error, Exception) else error
        elif error.outcome != LakelogError.outcome:
            self._standing.doubt(found)
            told, found.deciding = unknown, None
        elif self._standing.in_doubt(found):
            told, found.deciding = unknown, None
        elif isinstance(error, NotAvailable):
            found.deciding = None
        else:
            self._standing.end(found, error)
        if deciding is not None:
            deciding.set_exception(told if isinstance(told, Exception) else unknown)
        return told


def _decision() -> Future[Committed]:
    """The future of a commit. It is marked as running, so that a waiter that stops cannot cancel it for the others."""
    made = Future[Committed]()
    made.set_running_or_notify_cancel()
    return made
