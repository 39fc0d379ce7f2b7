"""Committing a transaction: what is to be stored, the last word in its turn at the journal, and what became of it."""

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
    """Whoever has started one stores it, and says then that it is stored, or why not."""

    def __init__(self, standing: TransactionRegistry, ledger: Ledger, clock_ms: Callable[[], int]) -> None:
        self._standing = standing
        self._ledger = ledger
        self._clock_ms = clock_ms

    def start(
        self, transaction: str, stages: Sequence[str] | None = None, *, stores_additions: bool = True
    ) -> Committed | Future[Committed] | tuple[Transaction, Commit]:
        """Nothing can be added from now on, unless it fails. The answer, or who is about to have it, or what to do."""
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
        """Under its lock. Whether another of its version was committed, between its beginning and its epoch."""
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
            """In the unit's turn at the journal: whoever opened a later epoch before it has shut it out."""
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
        """Its unit is durable."""
        committed, deciding = found.committed, found.deciding
        if committed is None or deciding is None:
            raise OutcomeUnknown(f"transaction {found.key.id}", "it was stored without its decision")
        self._standing.decided(found, committed)
        deciding.set_result(committed)
        return committed

    def not_stored(self, found: Transaction, error: BaseException) -> BaseException:
        """What the caller is told. It stays open where another commit of it may do better."""
        told, deciding = error, found.deciding
        unknown = OutcomeUnknown(f"the commit of {found.key.id}", str(error) or repr(error))
        if not isinstance(error, LakelogError):
            # Its unit may be under way still: it stays as it is, and is not tried again.
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
    """Whoever waits for it may stop, and takes it from nobody: what is running cannot be cancelled."""
    made = Future[Committed]()
    made.set_running_or_notify_cancel()
    return made
