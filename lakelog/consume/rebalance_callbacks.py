"""Callbacks that run in the caller's thread before a poll returns: assigned, revoked, lost, commit results. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from lakelog.consume.consumer_state import ConsumerState
from lakelog.consume.effects import NOW, Call, Wait
from lakelog.consume.partition_state import Held
from lakelog.foundation.topic_partition import TopicPartition
from lakelog.transport.retry import Heard

Listen = Callable[[list[TopicPartition]], object]


class Listener(NamedTuple):
    """Rebalance callbacks of a caller. Without `on_lost`, lost partitions are passed to `on_revoke`."""

    on_assign: Listen | None = None
    on_revoke: Listen | None = None
    on_lost: Listen | None = None


class Announcing:
    def __init__(self, known: ConsumerState) -> None:
        self.listener = Listener()
        self._known = known

    def run(self) -> Generator[Call | Wait, Heard, None]:
        """Run all pending callbacks; the first error of one is raised after the last."""
        known, raised = self._known, None
        while (act := self._next()) is not None:
            call, after = act
            now = (yield NOW).now
            try:
                if call is not None:
                    yield call
            except Exception as error:  # noqa: BLE001 - the caller's own
                raised = raised or error
            finally:
                after(now)
                known.touch()
        if raised is not None:
            raise raised

    def _next(self) -> tuple[Call | None, Callable[[float], None]] | None:
        known, listener = self._known, self.listener
        if known.decided:
            done = known.decided.popleft()
            return Call(done.callback, (done.error, done.offsets)), do_nothing
        if known.lost:
            partitions, _ = sorted(known.lost), known.lost.clear()
            return _call(listener.on_lost or listener.on_revoke, partitions), do_nothing
        asked = [held for held in known.held.values() if held.stage == "asked"]
        if asked:
            for held in asked:
                held.stage = "giving"
            return _call(listener.on_revoke, _named(asked)), lambda now: self._give(asked, now)
        gained = [held for held in known.held.values() if not held.announced]
        if gained:
            for held in gained:
                held.announced = True
            return _call(listener.on_assign, _named(gained)), lambda _: _begin(gained)
        return None

    def _give(self, several: list[Held], now: float) -> None:
        """Give up revoked partitions once their auto-commit is decided. Some may be lost already."""
        known = self._known
        several = [held for held in several if known.held.get(held.partition) is held]
        offsets = known.to_commit(several, now) if known.settings.enable_auto_commit else {}
        if offsets:
            until = now + known.settings.rebalance_timeout_ms / 1000
            known.commission(offsets, until, auto=True, giving=tuple(several))
        else:
            known.give_up(several)


def do_nothing(*_: Any) -> None:
    """Do nothing: for steps that need no follow-up."""


def _begin(several: list[Held]) -> None:
    for held in several:
        if held.stage == "new":
            held.stage = "kept"


def _named(several: list[Held]) -> list[TopicPartition]:
    return sorted(held.partition for held in several)


def _call(listen: Listen | None, partitions: list[TopicPartition]) -> Call | None:
    return None if listen is None else Call(listen, (partitions,))
