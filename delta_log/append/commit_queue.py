"""The commit queue: a request that finds it idle becomes leader; then the lead passes to the oldest waiting one."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from typing import Final, Protocol

from delta_log.append.append_unit import LedgerRequest
from delta_log.model.errors import OutcomeUnknown
from delta_log.model.types import Appended
from delta_log.records.epoch_bump import EpochBump
from delta_log.records.request import Request
from delta_log.topics.topic_state import TopicState

_GROUP_BYTES: Final = 8 * 1024 * 1024
_GROUP_UNITS: Final = 4096


class Turn(Protocol):
    """An entry of the queue."""

    def lead(self) -> None:
        """Called when this entry becomes the leader."""
        ...


class Unit(ABC):
    """A queued request; `live` is None for a ledger request and an epoch bump. Subclasses notify the caller."""

    __slots__ = ("error", "live", "request", "result")

    def __init__(self, live: TopicState | None, request: Request | LedgerRequest | EpochBump) -> None:
        self.live = live
        self.request = request
        self.result: Appended | None = None
        self.error: BaseException | None = None

    @abstractmethod
    def lead(self) -> None: ...

    @abstractmethod
    def done(self) -> None:
        """Called once `result` or `error` is set."""

    def deliver(self) -> None:  # noqa: B027 - most have nothing to do then
        """Called once all units of the group are done."""


class ThreadUnit(Unit):
    """A queued request that a thread waits for."""

    __slots__ = ("_gate", "leads")

    def __init__(self, live: TopicState | None, request: Request | LedgerRequest | EpochBump) -> None:
        super().__init__(live, request)
        self.leads = False
        self._gate = threading.Lock()
        self._gate.acquire()

    def lead(self) -> None:
        self.leads = True
        self._gate.release()

    def done(self) -> None:
        if not self.leads:
            self._gate.release()

    def wait(self) -> None:
        self._gate.acquire()

    def answer(self) -> Appended:
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise OutcomeUnknown("the request", "it was never answered")
        return self.result


class ExclusiveSlot:
    """A queue entry of a thread that must run with no group under way."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()

    def lead(self) -> None:
        self._gate.release()

    def wait(self) -> None:
        self._gate.acquire()


class CommitQueue:
    """The queue. Each entry waits on a lock or future of its own, so no wake-up is spurious."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[Turn] = deque()
        self._leader: Turn | None = None

    def enter(self, turn: Turn) -> bool:
        """Enqueue the entry; True if the caller becomes the leader."""
        with self._mutex:
            self._queue.append(turn)
            if self._leader is not None:
                return False
            self._leader = turn
            return True

    def hand_over(self) -> None:
        """Pass the lead to the first entry that waits."""
        with self._mutex:
            following = self._leader = self._queue[0] if self._queue else None
        if following is not None:
            following.lead()

    @property
    def waiting(self) -> int:
        """Number of entries in the queue."""
        return len(self._queue)

    def leave(self, turn: Turn) -> None:
        with self._mutex:
            self._queue.remove(turn)

    def give_up(self, turn: Turn) -> None:
        """Remove an interrupted entry, which neither keeps the lead nor gets it later."""
        with self._mutex:
            if turn in self._queue:
                self._queue.remove(turn)
            leads = self._leader is turn
        if leads:
            self.hand_over()

    def take(self) -> list[Unit]:
        """Dequeue the requests before the next exclusive slot, within bounds of count and size."""
        units: list[Unit] = []
        size = 0
        with self._mutex:
            while self._queue and len(units) < _GROUP_UNITS and size < _GROUP_BYTES:
                turn = self._queue[0]
                if not isinstance(turn, Unit):
                    break
                self._queue.popleft()
                units.append(turn)
                size += turn.request.size
        return units
