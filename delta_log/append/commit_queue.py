"""Whose turn it is to write. Whoever finds nobody at work leads; the lead is handed to the first who came meanwhile."""

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
    """Somebody in the queue."""

    def lead(self) -> None:
        """It is your turn to lead."""
        ...


class Unit(ABC):
    """One request in the queue; of a ledger's, and of a bump, `live` is None. A subclass says how its owner is told."""

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
        """`result` or `error` is set."""

    def deliver(self) -> None:  # noqa: B027 - most have nothing to do then
        """All of the group are done."""


class ThreadUnit(Unit):
    """Of a thread that waits for it."""

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
    """Of a thread that wants no group beside it."""

    __slots__ = ("_gate",)

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._gate.acquire()

    def lead(self) -> None:
        self._gate.release()

    def wait(self) -> None:
        self._gate.acquire()


class CommitQueue:
    """The queue. Everyone in it waits on something of his own, so nobody is woken for nothing."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._queue: deque[Turn] = deque()
        self._leader: Turn | None = None

    def enter(self, turn: Turn) -> bool:
        """Queue up; True when it falls to the caller to lead."""
        with self._mutex:
            self._queue.append(turn)
            if self._leader is not None:
                return False
            self._leader = turn
            return True

    def hand_over(self) -> None:
        """Pass the lead on to the first who waits."""
        with self._mutex:
            following = self._leader = self._queue[0] if self._queue else None
        if following is not None:
            following.lead()

    @property
    def waiting(self) -> int:
        """How many are in the queue."""
        return len(self._queue)

    def leave(self, turn: Turn) -> None:
        with self._mutex:
            self._queue.remove(turn)

    def give_up(self, turn: Turn) -> None:
        """Who was interrupted while he waited neither keeps the lead nor is given it later."""
        with self._mutex:
            if turn in self._queue:
                self._queue.remove(turn)
            leads = self._leader is turn
        if leads:
            self.hand_over()

    def take(self) -> list[Unit]:
        """The requests in front of the next one that wants to be alone, within bounds."""
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
