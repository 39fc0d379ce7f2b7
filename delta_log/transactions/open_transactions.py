"""Open transactions, indexed by id, by transactional id, and by deadline.

To begin one among a thousand does not visit the others. Pure except for its state; the caller of a change holds a lock.
"""

from __future__ import annotations

from typing import TypeVar

from delta_log.transactions.transaction import Transaction

K = TypeVar("K")


class OpenTransactions:
    """The open transactions. `get`, `all` and the count need no lock."""

    def __init__(self) -> None:
        self._all: dict[str, Transaction] = {}
        self._named: dict[str, dict[Transaction, None]] = {}
        #: By timeout. Transactions with the same timeout end in the order in which they were begun.
        self._lasting: dict[int, dict[Transaction, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def get(self, transaction: str) -> Transaction | None:
        return self._all.get(transaction)

    def all(self) -> list[Transaction]:
        return list(self._all.values())

    def add(self, begun: Transaction) -> None:
        self._all[begun.key.id] = begun
        self._named.setdefault(begun.key.transactional_id, {})[begun] = None
        self._lasting.setdefault(_lasts_ms(begun), {})[begun] = None

    def remove(self, ended: Transaction) -> None:
        """Remove a transaction; it may be gone already."""
        self._all.pop(ended.key.id, None)
        _discard(self._named, ended.key.transactional_id, ended)
        _discard(self._lasting, _lasts_ms(ended), ended)

    def of_name(self, transactional_id: str) -> list[Transaction]:
        return list(self._named.get(transactional_id, ()))

    def overdue(self, now_ms: int) -> list[Transaction]:
        """Transactions past their deadline. One begun concurrently, due slightly later, may hide one for that long."""
        found: list[Transaction] = []
        for beside in self._lasting.values():
            for each in beside:
                if each.deadline_ms > now_ms:
                    break
                found.append(each)
        return found


def _lasts_ms(transaction: Transaction) -> int:
    return transaction.deadline_ms - transaction.key.begun_ms


def _discard(groups: dict[K, dict[Transaction, None]], key: K, ended: Transaction) -> None:
    beside = groups.get(key)
    if beside is not None:
        beside.pop(ended, None)
        if not beside:
            del groups[key]
