"""Who waits for a predecessor: requests of idempotent producers that came before those that they follow.

Knows who waits, and asks `Producers` whether he still must. Must not know how anybody waits, nor for how long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from delta_log.model.types import ProducerStamp
from delta_log.records.idempotence import Producers

#: So many requests of one producer may wait in one topic: a producer has five on their way at most.
MOST_PARKED: Final = 4


@dataclass(eq=False, frozen=True, slots=True)
class Parked:
    """A request that waits. Any thread may call `wake`, more than once; it neither blocks nor raises."""

    topic_id: str
    stamp: ProducerStamp
    wake: Callable[[], None]


class EarlyRequests:
    """Of one log.

    No wake-up is lost: he who waits is on the list before he looks, and a predecessor is remembered before the list
    is looked through. What he sees may be tentative: whether he may go on is decided by the sequencer alone.
    """

    def __init__(self, producers: Producers) -> None:
        self._producers = producers
        self._of: dict[str, list[Parked]] = {}
        self._closed = False
        self._lock = threading.Lock()

    def enter(self, parked: Parked) -> bool:
        """Take a place; False when all are taken."""
        with self._lock:
            beside = self._of.setdefault(parked.stamp.producer_id, [])
            if sum(other.topic_id == parked.topic_id for other in beside) >= MOST_PARKED:
                return False
            beside.append(parked)
            return True

    def leave(self, parked: Parked) -> None:
        with self._lock:
            beside = self._of[parked.stamp.producer_id]
            beside.remove(parked)
            if not beside:
                del self._of[parked.stamp.producer_id]

    def must_wait(self, parked: Parked) -> bool:
        return not self._closed and self._producers.is_ahead(parked.topic_id, parked.stamp)

    def look_again(self, producer_ids: Sequence[str]) -> None:
        """Something of these producers was stored: wake those who need not wait any more."""
        if self._of:
            for producer_id in producer_ids:
                self._look_again(producer_id)

    def _look_again(self, producer_id: str) -> None:
        if producer_id in self._of:
            with self._lock:
                beside = list(self._of.get(producer_id, ()))
            _wake([parked for parked in beside if not self.must_wait(parked)])

    def close(self) -> None:
        """Nothing will be stored any more, and nobody waits for it."""
        with self._lock:
            self._closed = True
            everybody = [parked for beside in self._of.values() for parked in beside]
        _wake(everybody)


def _wake(several: list[Parked]) -> None:
    for parked in several:
        parked.wake()
