"""Early requests: requests of idempotent producers that arrived before their predecessors.

Knows which requests wait, and asks `Producers` whether each still must. Must not know how a caller waits, or how long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from delta_log.model.types import ProducerStamp
from delta_log.records.idempotence import Producers

#: Bound on the waiting requests of one producer in one topic: a producer has at most five in flight.
MOST_PARKED: Final = 4


@dataclass(eq=False, frozen=True, slots=True)
class Parked:
    """A waiting request. Any thread may call `wake`, repeatedly; it neither blocks nor raises."""

    topic_id: str
    stamp: ProducerStamp
    wake: Callable[[], None]


class EarlyRequests:
    """The early requests of one log.

    No wake-up is lost: a request enters the list before it checks, and a predecessor is remembered before the list is
    scanned. The state it checks may be tentative: the sequencer alone decides whether a request may proceed.
    """

    def __init__(self, producers: Producers) -> None:
        self._producers = producers
        self._of: dict[str, list[Parked]] = {}
        self._closed = False
        self._lock = threading.Lock()

    def enter(self, parked: Parked) -> bool:
        """Add the request; False if the producer has no place left in this topic."""
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
        """Wake the requests that need not wait any more, after something of these producers was stored."""
        if self._of:
            for producer_id in producer_ids:
                self._look_again(producer_id)

    def _look_again(self, producer_id: str) -> None:
        if producer_id in self._of:
            with self._lock:
                beside = list(self._of.get(producer_id, ()))
            _wake([parked for parked in beside if not self.must_wait(parked)])

    def close(self) -> None:
        """Wake all and let none wait: nothing will be stored any more."""
        with self._lock:
            self._closed = True
            everybody = [parked for beside in self._of.values() for parked in beside]
        _wake(everybody)


def _wake(several: list[Parked]) -> None:
    for parked in several:
        parked.wake()
