"""Races for the lock of a transaction, always won by the same."""

from __future__ import annotations

import threading
from collections.abc import Callable

from delta_log import Log


class _Contested:
    """Whoever comes for the lock finds that somebody else has had it just before."""

    def __init__(self, lock: threading.Lock, before: Callable[[], object]) -> None:
        self._lock = lock
        self._before = before

    def locked(self) -> bool:
        return self._lock.locked()

    def __enter__(self) -> None:
        before, self._before = self._before, lambda: None
        before()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def be_quicker_to(log: Log, transaction: str, act: Callable[[], object]) -> None:
    """The next who comes for the lock of an open transaction has it behind whoever does this."""
    found = log.transactions._standing.open.get(transaction)
    assert found is not None
    found.lock = _Contested(found.lock, act)  # type: ignore[assignment]
