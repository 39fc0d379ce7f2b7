"""A job as a member of a consumer group: a thread sends heartbeats, and receives the member's partitions.

    with Member(groups, group, …) as member:
        share = member.take(…)          the partitions it may read; from here on it holds them
        … read until member.has_moved(share) …
        member.commit(share, offsets)   Fenced, or stored
        member.let_go()                 revoked partitions move to other members

It knows when a partition may be read and which member commits; not what is read.
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

#: Heartbeats in a session, as many as Kafka's consumers send by default.
_BEATS: Final = 15
#: Heartbeat interval of a member that reads nothing, so that it soon learns of new partitions.
_IDLE_BEAT_S: Final = 0.5
_END_WITHIN_S: Final = 5.0
#: Time to give up revoked partitions, as in Kafka's consumers.
_REBALANCE_MS: Final = 300_000


class Share(NamedTuple):
    """Partitions of the member `name` as of a generation."""

    name: str
    generation: int
    partitions: frozenset[TopicPartition]


class Member:
    """A member of a group, for one thread beside its own. If the group forgot it, it joins again automatically.

    `letters`: the topic of its dead letters, if it is not the default one of the group.
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
        """Leave the group: its partitions move to other members at once."""
        with self._state:
            self._ended = True
            self._state.notify_all()
        self._thread.join(_END_WITHIN_S)
        if self._instance is not None:
            self._instance.leave()

    def take(self, until: Callable[[], bool]) -> Share | None:
        """Wait for a share: partitions to read, none of them being revoked; None when `until` is true."""
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
        """Return whether the group has no partition for the member, by the last heartbeat."""
        with self._state:
            heard = self._heard
            return heard is not None and not heard.assigned and not heard.revoking

    def has_moved(self, share: Share) -> bool:
        """Return whether a share differs from what the member may read now."""
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
        """Commit; Fenced if one of the partitions has had another owner since."""
        if offsets:
            self._groups.member(self._group, share.name).commit(offsets, share.generation)

    def still_held(self, share: Share) -> frozenset[TopicPartition]:
        """Partitions of a fenced share that have had no other owner; by a new heartbeat."""
        instance = self._groups.member(self._group, share.name)
        try:
            heard = instance.beat(share.partitions)
        except Fenced:
            return frozenset()
        there = (heard.assigned | heard.revoking) & share.partitions
        return frozenset(each for each in there if heard.since.get(each, share.generation) <= share.generation)

    def let_go(self) -> None:
        """Stop holding the share, and send a heartbeat at once, so that members waiting for it get it."""
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
        except BaseException as error:  # noqa: BLE001 - raised in the thread that uses the member
            with self._state:
                self._failure = error
                self._state.notify_all()

    def _wait(self) -> bool:
        """Wait until the next heartbeat is due; False at the end."""
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
