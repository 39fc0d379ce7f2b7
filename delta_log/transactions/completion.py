"""Completes a transaction's row with the versions of the tables that have its records.

At the decision no version is known. So the row is stored a second time later, the rows of about a second in one unit:
its state is then `complete`, and each of its topics has a version. Only readers of the table use it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from delta_log.append.append_unit import EncodedRows
from delta_log.commit.table_committer import is_tabled
from delta_log.keyed import Ledger
from delta_log.model.errors import LakelogError, UnknownTopic
from delta_log.model.types import Appended
from delta_log.records.idempotence import Producers
from delta_log.records.keyed_table import Row
from delta_log.topics.topic_state import TopicState
from delta_log.transactions.registry import TransactionRegistry
from delta_log.transactions.transaction_id import TransactionKey
from delta_log.transactions.transaction_log import REMEMBERED, TABLE, Stored, complete, stored_in

#: Transactions checked in one run.
_AT_ONCE: Final = 5_000
_NOT_YET: Final = -1


class Completing:
    """Completes rows. `find` returns an open topic by its name."""

    def __init__(self, standing: TransactionRegistry, ledger: Ledger, find: Callable[[str], TopicState]) -> None:
        self._standing = standing
        self._ledger = ledger
        self._find = find
        self._lock = threading.Lock()

    def run(self) -> None:
        """Complete the waiting transactions whose records are in the tables by now."""
        waiting, done = self._standing.incomplete, dict[TransactionKey, Row]()
        with self._lock:
            for _ in range(min(len(waiting), _AT_ONCE)):
                key = waiting.popleft()
                row = self._standing.decisions.row(key)
                if row is None:
                    continue  # a later commit took its slot
                versions = self._versions(row)
                if versions is None:
                    waiting.append(key)
                else:
                    done[key] = complete(row, versions)
            try:
                if done:
                    self._ledger.own_tables()
                    self._ledger.append([], decide=partial(self._decide, list(done.values())))
            except BaseException:
                waiting.extend(done)
                raise

    def _versions(self, row: Row) -> list[int | None] | None:
        """Version of each table; None while a table is behind."""
        try:
            versions = [self._version(stored) for stored in stored_in(row)]
        except LakelogError:
            return None
        return None if _NOT_YET in versions else versions

    def _version(self, stored: Stored) -> int | None:
        """Version of one table; None if the topic is gone, `_NOT_YET` if the table is behind."""
        try:
            live = self._find(stored.topic)
        except UnknownTopic:
            return None
        if live.id != stored.topic_id:
            return None
        return live.table.snapshot.version if is_tabled(live, stored.ranges) else _NOT_YET

    def _decide(self, rows: Sequence[Row], _: Producers, __: Sequence[Appended]) -> EncodedRows:
        """Choose the rows in the unit's turn: a later commit may have taken a slot, and must not be overwritten.

        A decided transaction stays open until it is among the decisions, so the two are checked in that order.
        """
        taken = {
            (each.key.transactional_id, each.key.epoch % REMEMBERED)
            for each in self._standing.open.all()
            if each.committed is not None
        }
        decisions = self._standing.decisions
        left = [row for row in rows if row[:2] not in taken and decisions.has(row)]
        return self._ledger.encode([(TABLE, row) for row in left])
