"""Begins a transaction: opens the next epoch of its id, or returns the open transaction of the same version."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Final

from delta_log.append.group_commit import Writer
from delta_log.append.init_producer import bump_epoch, check_transactional_id
from delta_log.keyed import Ledger
from delta_log.model.errors import InvalidTransactionTimeout, Overloaded, TransactionError, VersionDecided
from delta_log.model.quoting import quoted
from delta_log.model.transaction_bounds import Bounds
from delta_log.records.idempotence import is_later
from delta_log.topics.topic_state import TopicState
from delta_log.transactions.buffered_records import BufferedRecords
from delta_log.transactions.registry import TransactionRegistry
from delta_log.transactions.transaction import Begun, Transaction
from delta_log.transactions.transaction_id import RANDOM_BITS, TransactionKey

_INT64_MAX: Final = 2**63 - 1


class Beginning:
    """Begins transactions and registers them in `standing`."""

    def __init__(
        self,
        standing: TransactionRegistry,
        writer: Writer,
        ledger: Ledger,
        own_producers: Callable[[], TopicState],
        bounds: Bounds,
        clock_ms: Callable[[], int],
        expire: Callable[[], None],
    ) -> None:
        self._standing = standing
        self._writer = writer
        self._ledger = ledger
        self._own_producers = own_producers
        self._bounds = bounds
        self._clock_ms = clock_ms
        self._expire = expire
        self._joining = threading.Lock()

    def begin(self, transactional_id: str, timeout_ms: int | None, version: int | None) -> Begun:
        """Begin a transaction. A version has one open transaction at a time, and none once it was committed."""
        check_transactional_id(transactional_id)
        if version is None:
            return self.open(transactional_id, timeout_ms, None)
        if type(version) is not int or not 0 <= version <= _INT64_MAX:
            raise TransactionError(f"a version is a whole number from 0 to {_INT64_MAX}, not {quoted(version)}")
        self._standing.check_writable()
        with self._joining:  # concurrent callers of the same version get the same transaction
            return self._join(transactional_id, version) or self.open(transactional_id, timeout_ms, version)

    def _join(self, transactional_id: str, version: int) -> Begun | None:
        """The transaction of a version, if it is open."""
        with self._standing.lock:  # a transaction committed meanwhile is either still open or among the decisions
            decided = self._standing.decisions.version(transactional_id)
            if decided is not None and version <= decided:
                raise VersionDecided(transactional_id, version, decided)
            named = self._standing.open.of_name(transactional_id)
        for each in named:
            # A transaction in doubt is not joined: opening a later epoch settles it.
            if each.version == version and not self._standing.in_doubt(each) and not self._standing.has_ended(each):
                left_ms = max(1, each.deadline_ms - self._clock_ms())
                return Begun(each.key.id, transactional_id, each.key.epoch, left_ms)
        return None

    def open(self, transactional_id: str, timeout_ms: int | None, version: int | None) -> Begun:
        """Open the next epoch, which fences all earlier ones."""
        standing, timeout = self._standing, self._bounds.timeout_ms if timeout_ms is None else timeout_ms
        if not 1 <= timeout <= self._bounds.most_timeout_ms:
            raise InvalidTransactionTimeout(timeout, self._bounds.most_timeout_ms)
        standing.check_writable()
        standing.end_overdue()
        if len(standing.open) >= self._bounds.most_open:
            self._expire()
        if len(standing.open) >= self._bounds.most_open:
            raise Overloaded("transactions", len(standing.open), self._bounds.most_open, "are open")
        self._ledger.own_tables()
        self._own_producers()
        floor = standing.decisions.epoch(transactional_id) + 1
        epoch = bump_epoch(self._writer, transactional_id, self._clock_ms, floor, reserves=True).epoch
        now_ms = self._clock_ms()
        key = TransactionKey.fresh(transactional_id, epoch, now_ms, secrets.randbits(RANDOM_BITS))
        begun = Transaction(key, now_ms + timeout, BufferedRecords(key, self._bounds), version)
        with standing.lock:
            standing.open.add(begun)
            rivals = standing.open.of_name(transactional_id)
        for each in rivals:
            if is_later(standing.epoch(each), each.key.epoch):
                standing.has_ended(each)
        return Begun(key.id, transactional_id, epoch, timeout)
