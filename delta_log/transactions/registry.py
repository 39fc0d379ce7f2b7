"""Registry of open transactions, and of the outcomes of ended ones: finds, fences, times out and closes them.

It knows the holders of epochs and the decisions; it stores nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from delta_log.append.group_commit import Writer
from delta_log.model.errors import (
    LakelogError,
    OutcomeUnknown,
    TransactionAborted,
    TransactionDecided,
    TransactionFenced,
    TransactionTimedOut,
    UnknownTransaction,
)
from delta_log.model.transaction_bounds import Bounds
from delta_log.records.idempotence import is_later
from delta_log.runtime.meters import OUTCOMES, TransactionStatistics
from delta_log.transactions.open_transactions import OpenTransactions
from delta_log.transactions.transaction import Known, Transaction
from delta_log.transactions.transaction_id import TransactionKey, parse_id
from delta_log.transactions.transaction_log import Committed, Decisions, row_of

#: Reasons of aborts are remembered for so many transactions, and only until a restart. Timeouts are also stored.
_MOST_ENDED: Final = 10_000
#: More groups than any process stores.
_FOR_GOOD: Final = 2**63


class TransactionRegistry:
    """The registry. `lock` is held to change what is open; a transaction's lock is taken before it, never after it.

    While it is held, the set of in-flight transactions is complete.
    """

    def __init__(self, writer: Writer, decisions: Decisions, bounds: Bounds, clock_ms: Callable[[], int]) -> None:
        self.decisions = decisions
        #: committed transactions that may not be in all tables yet
        self.incomplete = deque(decisions.incomplete())
        self.open = OpenTransactions()
        self.ended: OrderedDict[str, LakelogError] = OrderedDict()
        #: transactions that timed out, until that is stored
        self.overtime: dict[TransactionKey, None] = {}
        self.held_bytes = 0
        self._counts: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
        self.lock = threading.RLock()
        self._writer = writer
        self._bounds = bounds
        self._clock_ms = clock_ms

    def measure(self) -> TransactionStatistics:
        """Counts for metrics; takes no lock."""
        begun = min((each.key.begun_ms for each in self.open.all()), default=None)
        oldest_s = 0.0 if begun is None else max(0, self._clock_ms() - begun) / 1000
        return TransactionStatistics(len(self.open), self.held_bytes, oldest_s, tuple(self._counts.items()))

    def check_writable(self) -> None:
        if self._writer.fatal is not None:
            raise self._writer.fatal

    def epoch(self, found: Transaction) -> int:
        """The latest opened epoch of its transactional id."""
        return self._writer.producers.epoch_of(found.key.transactional_id)

    def find(self, transaction: str) -> Transaction:
        """Find an open transaction; if it is not open, raises its outcome."""
        self.check_writable()
        found = self.open.get(transaction)
        if found is None:
            known = self.past(transaction)
            raise known.why or TransactionDecided(transaction, known.state)
        return found

    def check_open(self, found: Transaction) -> None:
        """Raise if nothing can be added any more. The caller holds the transaction's lock."""
        if not found.ended and (found.deciding is not None or self.in_doubt(found)):
            raise TransactionDecided(found.key.id, "being committed")
        epoch = self.epoch(found)
        if not found.ended and is_later(epoch, found.key.epoch):
            self.end(found, TransactionFenced(found.key.id, epoch))
        elif not found.ended and self._clock_ms() >= found.deadline_ms:
            self.end(found, TransactionTimedOut(found.key.id))
        if found.ended:
            raise self.past(found.key.id).why or TransactionDecided(found.key.id, "committed")

    def has_ended(self, found: Transaction) -> bool:
        """True if it has ended; ends it now if it is fenced or past its deadline."""
        epoch = self.epoch(found)
        if is_later(epoch, found.key.epoch):
            self.abort(found, TransactionFenced(found.key.id, epoch))
        elif self._clock_ms() >= found.deadline_ms:
            self.abort(found, TransactionTimedOut(found.key.id))
        return found.ended

    def in_doubt(self, found: Transaction) -> bool:
        """True if a commit of it may be stored. A later stored group proves that it was not."""
        last, fatal = found.doubted_at, self._writer.fatal is not None
        return last >= self._writer.writes or (fatal and last >= 0)

    def try_to_commit(self, found: Transaction) -> None:
        """Note a commit attempt, in the turn of its unit."""
        found.tried_at = self._writer.writes

    def doubt(self, found: Transaction) -> None:
        """Note that the outcome of its last commit attempt, if any, is unknown to the journal."""
        found.doubted_at = found.tried_at

    def lose(self, found: Transaction) -> None:
        """Note that its outcome cannot be learned in this process: only a restart tells it."""
        found.doubted_at = _FOR_GOOD

    def end_overdue(self) -> None:
        """Abort transactions past their deadline."""
        with self.lock:
            overdue = self.open.overdue(self._clock_ms())
        for each in overdue:
            self.has_ended(each)

    def abort(self, found: Transaction, why: LakelogError) -> None:
        """Abort it, unless a commit is in doubt or under way: that one checks for the same reasons in its turn."""
        with found.lock:
            if found.deciding is None and not self.in_doubt(found) and not found.ended:
                self.end(found, why)

    def end(self, found: Transaction, why: LakelogError) -> None:
        """End it as aborted: nothing of it is stored, or ever will be. The caller holds its lock."""
        with self.lock:
            self.ended[found.key.id] = why
            self._counts[_outcome(why)] += 1
            if isinstance(why, TransactionTimedOut):
                self.overtime[found.key] = None
            if len(self.ended) > _MOST_ENDED:
                self.ended.popitem(last=False)
            self._close(found)

    def decided(self, found: Transaction, committed: Committed) -> None:
        """Note that it is stored completely."""
        with self.lock:
            self.decisions.replay(row_of(committed))
            self._counts["committed"] += 1
            self.incomplete.append(found.key)
            self._close(found)

    def _close(self, found: Transaction) -> None:
        found.ended = True
        self.open.remove(found)
        self.held_bytes -= found.held.cost
        found.held.requests = []
        if found.spill is not None:
            found.spill.close()

    def past(self, transaction: str) -> Known:
        """The outcome of a transaction that is not open."""
        ended = self.ended.get(transaction)
        if ended is not None:
            return Known(transaction, "aborted", why=ended)
        key = parse_id(transaction)
        if key is None:
            raise UnknownTransaction(transaction)
        if self.decisions.timed_out(key):
            return Known(transaction, "aborted", why=TransactionTimedOut(transaction))
        committed = self.decisions.committed(key)
        if committed is not None:
            return Known(transaction, "committed", committed)
        opened = self._writer.producers.epoch_of(key.transactional_id)
        what = self.decisions.what(key, opened, self._clock_ms() - self._bounds.expiration_ms)
        if what == "unknown":
            raise UnknownTransaction(transaction)
        if what == "forgotten":
            raise OutcomeUnknown(f"transaction {transaction}", "what became of it is not kept any more")
        sure = self._writer.producers.surely_opened(key.transactional_id)
        if is_later(sure, key.epoch):
            return Known(transaction, "aborted", why=TransactionFenced(transaction, sure))
        why = "it was not committed before its time or a restart ended it"
        return Known(transaction, "aborted", why=TransactionAborted(transaction, why))


def _outcome(why: LakelogError) -> str:
    match why:
        case TransactionFenced():
            return "fenced"
        case TransactionTimedOut():
            return "timed_out"
        case _:
            return "aborted"
