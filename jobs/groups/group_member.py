"""A job as a member of a consumer group: a thread says that it lives, and hears which partitions are its own.

    with Member(groups, group, …) as member:
        share = member.take(…)          what it may read now; from here on it holds that
        … read until member.has_moved(share) …
        member.commit(share, offsets)   Fenced, or stored
        member.let_go()                 what is being revoked goes to others

It knows when a partition may be read and by whom a commit is made; not what is read.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self

from jobs.groups.group_client import Beat, Fenced, Groups, Instance
from jobs.source.positions import Positions, TopicPartition

__all__ = ["Member", "Share"]

#: As many as Kafka's consumers send by default in a session.
_BEATS: Final = 15
#: Who reads nothing waits for something to read.
_IDLE_BEAT_S: Final = 0.5
_END_WITHIN_S: Final = 5.0
#: Kafka's consumers have so long to come back from what they were given.
_REBALANCE_MS: Final = 300_000


class Share(NamedTuple):
    """What the member `name` was given as of a generation."""

    name: str
    generation: int
    partitions: frozenset[TopicPartition]


class Member:
    """One thread may use it, beside the one that it has itself. A member that the group forgot joins anew by itself.

    `letters` is the topic of its dead letters, where that is not the one that every group has.
    """

    def __init__(
        self,
        groups: Groups,
        group: str,
        subscription: Mapping[str, object],
        *,
        session_ms: int,
        reset: str,
        letters: str | None = None,
    ) -> None:
        self._groups = groups
        self._group = group
        self._subscription = subscription
        self._options = {
            "auto.commit.enable": False,
            "auto.offset.reset": reset,
            "session.timeout.ms": session_ms,
            "polls": False,
            "rebalance.timeout.ms": max(_REBALANCE_MS, session_ms),
            **({"dead.letter.topic": letters} if letters else {}),
        }
        self._beat_s = session_ms / 1000 / _BEATS
        self._state = threading.Condition()
        self._instance: Instance | None = None
        self._heard: Beat | None = None
        self._held: frozenset[TopicPartition] = frozenset()
        self._failure: BaseException | None = None
        self._ended = False
        self._hurry = False
        self._thread = threading.Thread(target=self._run, name="lakelog-member", daemon=True)

    def __enter__(self) -> Self:
        self._join()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held any more, so what it had goes to others at once."""
        with self._state:
            self._ended = True
            self._state.notify_all()
        self._thread.join(_END_WITHIN_S)
        if self._instance is not None:
            self._instance.leave()

    def take(self, until: Callable[[], bool]) -> Share | None:
        """What it may read, once there is something and nothing of it is to be given up; None when `until` is true."""
        while True:
            with self._state:
                self._check()
                heard, instance = self._heard, self._instance
                if heard is not None and instance is not None and heard.assigned and not heard.revoking:
                    self._held = heard.assigned
                    return Share(instance.name, heard.generation, heard.assigned)
                self._state.wait(_IDLE_BEAT_S / 5)
            if until():
                return None

    def is_idle(self) -> bool:
        """Whether the group is known to have nothing for the member, as of now."""
        with self._state:
            heard = self._heard
            return heard is not None and not heard.assigned and not heard.revoking

    def has_moved(self, share: Share) -> bool:
        """Whether a share is not, or no longer, all that the member may read."""
        with self._state:
            self._check()
            heard, instance = self._heard, self._instance
            return (
                heard is None
                or instance is None
                or instance.name != share.name
                or bool(heard.revoking)
                or heard.assigned != share.partitions
                or any(since > share.generation for since in heard.since.values())
            )

    def commit(self, share: Share, offsets: Positions) -> None:
        """Fenced where one of the partitions has been another's since."""
        if offsets:
            self._groups.member(self._group, share.name).commit(offsets, share.generation)

    def still_held(self, share: Share) -> frozenset[TopicPartition]:
        """Of a share that was fenced, what has been nobody else's; the group is asked now."""
        instance = self._groups.member(self._group, share.name)
        try:
            heard = instance.beat(share.partitions)
        except Fenced:
            return frozenset()
        there = (heard.assigned | heard.revoking) & share.partitions
        return frozenset(each for each in there if heard.since.get(each, share.generation) <= share.generation)

    def let_go(self) -> None:
        """Nothing is being read any more; whoever waits for it is not kept waiting for the next heartbeat."""
        with self._state:
            self._held = frozenset()
            self._heard = None
            self._hurry = True
            self._state.notify_all()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _join(self) -> None:
        instance = self._groups.member(self._group, f"spark-{uuid.uuid4().hex}")
        instance.join(self._options, self._subscription)
        with self._state:
            self._instance, self._heard = instance, None

    def _run(self) -> None:
        try:
            while self._wait():
                self._beat()
        except BaseException as error:  # noqa: BLE001 - told to whoever uses the member
            with self._state:
                self._failure = error
                self._state.notify_all()

    def _wait(self) -> bool:
        """Until the next heartbeat is due; False when there is none."""
        with self._state:
            pause = self._beat_s if self._held else min(self._beat_s, _IDLE_BEAT_S)
            at = time.monotonic() + (pause if self._heard is not None else 0.0)
            while not self._ended and not self._hurry and (left := at - time.monotonic()) > 0:
                self._state.wait(left)
            self._hurry = False
            return not self._ended

    def _beat(self) -> None:
        with self._state:
            instance, held = self._instance, self._held
        if instance is None:
            self._join()
            return
        try:
            heard = instance.beat(held)
        except Fenced:
            with self._state:
                self._instance, self._heard = None, None
            return
        with self._state:
            if held == self._held:
                self._heard = heard
