"""What a caller asks a consumer for, in his own thread: to read, to commit, to end. Pure.

Nothing here sends anything: it says what is wanted, waits for what others find out, and calls the caller back. A call
that has a time ends with it, whatever the server does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, NamedTuple

from lakelog.consume.buffer import Handed
from lakelog.consume.knowledge import Commission, Held, Knowledge, Manual, Offsets, Pattern, Topics, Where
from lakelog.consume.shapes import ConsumerRecord
from lakelog.consume.steps import NOW, Call, Doing, Wait
from lakelog.consume.stretch import Stretch
from lakelog.errors import CommitFailed, IllegalState, NoOffset, OutcomeUnknown, WokenUp
from lakelog.places import TopicPartition
from lakelog.transport.asking import Heard

Listen = Callable[[list[TopicPartition]], object]


class Listener(NamedTuple):
    """Without `on_lost`, what was lost is told to `on_revoke`."""

    on_assign: Listen | None = None
    on_revoke: Listen | None = None
    on_lost: Listen | None = None


class Calls:
    def __init__(self, known: Knowledge) -> None:
        self.listener = Listener()
        self.lent: list[ConsumerRecord] = []
        """What an iteration was given, and how much of it it has used."""
        self.lent_used = 0
        self._lent: list[Handed] = []
        self._known = known
        self._auto_at = 0.0

    # --- what to read

    def subscribe(self, wanted: Topics | Pattern, listener: Listener, now: float) -> None:
        """What is not wanted any more is given up by the next poll."""
        known = self._known
        if isinstance(known.wanted, Manual):
            raise IllegalState("partitions were assigned: unsubscribe first")
        self._begin(now)
        self.listener, known.wanted = listener, wanted
        known.ask_back(held for held in known.held.values() if not known.wants(held.partition))
        known.touch()

    def assign(self, partitions: Iterable[TopicPartition], now: float) -> None:
        known = self._known
        if known.subscribed:
            raise IllegalState("there is a subscription: unsubscribe first")
        self.put_back()
        self._commit_now_and_then(now, at_once=True)
        chosen = tuple(dict.fromkeys(partitions))
        self._begin(now)
        known.wanted = Manual(chosen)
        known.give_up([held for held in known.held.values() if held.partition not in chosen])
        for partition in chosen:
            if partition not in known.held:
                known.held[partition] = Held(partition, None, announced=True)
        known.touch()

    def seek(self, partitions: Iterable[TopicPartition] | None, where: Where) -> None:
        """What was read of them and not handed out is forgotten. None is all that the caller has."""
        known = self._known
        if partitions is None:
            several = [held for held in known.held.values() if held.announced and held.stage == "kept"]
        else:
            several = [self.held_at(partition) for partition in partitions]
        if gone := next((held for held in several if held.stage != "kept"), None):
            raise IllegalState(f"{gone.partition} is being revoked")
        self.put_back()
        for held in several:
            held.seek(where)
        known.buffer.purge()
        if isinstance(known.error, NoOffset):
            known.error = None
        known.touch()

    def held_at(self, partition: TopicPartition) -> Held:
        self.mark()
        held = self._known.held.get(partition)
        if held is None:
            raise IllegalState(f"{partition} is not assigned to this consumer")
        return held

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        several = [self.held_at(partition) for partition in partitions]
        self.put_back()
        for held in several:
            held.paused = paused
        self._known.touch()

    def _begin(self, now: float) -> None:
        known = self._known
        known.polled_at, known.stopped, known.error = now, False, None

    # --- reading

    def poll_rows(self, timeout: float | None, most: int) -> Doing[list[ConsumerRecord]]:
        return flat((yield from self._poll(timeout, lambda: self._known.buffer.take(most, as_rows=True))))

    def lend(self, most: int) -> Doing[None]:
        """Records for an iteration, which takes them one by one."""
        handed = yield from self._poll(None, lambda: self._known.buffer.take(most, as_rows=True))
        self._lent, self.lent, self.lent_used = handed, flat(handed), 0

    def poll_stretches(self, timeout: float | None, most: int | None) -> Doing[list[Stretch]]:
        limit = 1 << 62 if most is None else most
        handed = yield from self._poll(timeout, lambda: self._known.buffer.take(limit, as_rows=False))
        return [each.stretch for each in handed]

    def _poll(self, timeout: float | None, take: Callable[[], list[Handed]]) -> Doing[list[Handed]]:
        known, now = self._known, (yield NOW).now
        deadline = None if timeout is None else now + max(0.0, timeout)
        if known.wanted is None:
            raise IllegalState("nothing is subscribed to, and no partition is assigned")
        if known.polling:
            raise IllegalState("a listener cannot poll")
        self.put_back()
        for held in known.held.values():
            held.settled = held.position
        self._commit_now_and_then(now)
        known.polling, known.overdue = True, False
        known.stopped = known.error is not None
        known.touch()
        try:
            while True:
                yield from self._announce()
                self._check()
                handed = take()
                if handed or (deadline is not None and now >= deadline):
                    return handed
                now = (yield Wait(deadline)).now
        finally:
            known.polling, known.hungry, known.polled_at = False, True, max(now, known.polled_at)
            known.touch()

    def _check(self) -> None:
        known = self._known
        if known.woken:
            known.woken = False
            raise WokenUp
        if known.fatal is not None:
            raise known.fatal
        if known.error is not None:
            error, known.error = known.error, None
            raise error

    def put_back(self) -> None:
        """What an iteration was given and has not used is handed out again."""
        lent, used = self._lent, self.lent_used
        self._lent, self.lent, self.lent_used = [], [], 0
        self._known.buffer.put_back(lent, used)

    def mark(self) -> None:
        """How far an iteration is, without taking anything from it."""
        used = self.lent_used
        for each in self._lent:
            count = min(used, len(each.stretch))
            each.used(count)
            used -= count

    # --- telling the caller

    def _announce(self) -> Generator[Call | Wait, Heard, None]:
        """Everything that he has to know first; what he raises is raised when all of it is done."""
        known, raised = self._known, None
        while (act := self._next_announcement()) is not None:
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

    def _next_announcement(self) -> tuple[Call | None, Callable[[float], None]] | None:
        known = self._known
        if known.decided:
            done = known.decided.popleft()
            return Call(done.callback, (done.error, done.offsets)), _nothing
        if known.lost:
            partitions, _ = sorted(known.lost), known.lost.clear()
            return self._call(self.listener.on_lost or self.listener.on_revoke, partitions), _nothing
        asked = [held for held in known.held.values() if held.stage == "asked"]
        if asked:
            for held in asked:
                held.stage = "giving"
            partitions = sorted(held.partition for held in asked)
            return self._call(self.listener.on_revoke, partitions), lambda now: self._give(asked, now)
        gained = [held for held in known.held.values() if not held.announced]
        if gained:
            partitions = sorted(held.partition for held in gained)
            return self._call(self.listener.on_assign, partitions), lambda _: _announced(gained)
        return None

    def _call(self, listen: Listen | None, partitions: list[TopicPartition]) -> Call | None:
        return None if listen is None else Call(listen, (partitions,))

    def _give(self, several: list[Held], now: float) -> None:
        """What is to go goes when what was handed out of it is committed, or cannot be."""
        known = self._known
        offsets = known.to_commit(several) if known.settings.enable_auto_commit else {}
        if offsets:
            until = now + known.settings.rebalance_timeout_ms / 1000
            known.commission(offsets, until, auto=True, giving=tuple(several))
        else:
            known.give_up(several)

    # --- committing

    def _commit_now_and_then(self, now: float, *, at_once: bool = False) -> None:
        """Auto-commit: what the caller is done with, as he came back."""
        known = self._known
        if not known.settings.enable_auto_commit or any(each.auto for each in known.commits):
            return
        if not at_once and now < self._auto_at:
            return
        self._auto_at = now + known.settings.auto_commit_interval_ms / 1000
        kept = [held for held in known.held.values() if held.stage == "kept"]
        offsets = known.to_commit(kept, settled=not at_once)
        if offsets:
            known.commission(offsets, now + known.settings.default_api_timeout_ms / 1000, auto=True)

    def commit(self, offsets: Offsets | None, timeout: float | None) -> Doing[None]:
        """Wait until it is stored, or raise why it is not."""
        known, now = self._known, (yield NOW).now
        made = self._commission(offsets, now, timeout, None)
        while made is not None and not made.decided:
            if known.woken:
                known.woken = False
                raise WokenUp
            if now >= made.until:
                raise made.error or OutcomeUnknown("committing offsets", "it took too long")
            now = (yield Wait(made.until)).now
        if made is not None and made.error is not None:
            raise made.error

    def commit_later(self, offsets: Offsets | None, callback: Callable[..., object] | None, now: float) -> None:
        """`callback` is called within a later call."""
        made = self._commission(offsets, now, None, callback or _nothing)
        if made is None and callback is not None:  # nothing was left to commit
            self._known.decided.append(Commission(deque(), {}, now, None, callback=callback, decided=True))

    def _commission(
        self, offsets: Offsets | None, now: float, timeout: float | None, callback: Callable[..., object] | None
    ) -> Commission | None:
        known = self._known
        if known.fatal is not None:
            raise known.fatal
        known.check_not_lost(None if offsets is None else offsets.keys())
        if known.wanted is None:
            raise IllegalState("nothing is subscribed to, and no partition is assigned")
        if known.overdue:
            raise CommitFailed("there was no poll for max.poll.interval.ms, so the partitions are others'")
        self.mark()
        if offsets is None:
            offsets = known.to_commit(known.held.values())
        patience = known.settings.default_api_timeout_ms / 1000 if timeout is None else timeout
        return known.commission(offsets, now + patience, callback=callback) if offsets else None

    # --- the end

    def unsubscribe(self, timeout: float | None) -> Doing[None]:
        """Commit what is to be committed, tell the caller, and leave the group."""
        yield from self._leave(timeout, commit=True)

    def close(self, timeout: float | None, *, commit: bool) -> Doing[None]:
        """`commit` is whether what the last poll handed out counts as done."""
        known = self._known
        try:
            yield from self._leave(timeout, commit=commit)
        finally:
            known.ended = True
            known.touch()

    def _leave(self, timeout: float | None, *, commit: bool) -> Doing[None]:
        known, now = self._known, (yield NOW).now
        self.put_back()
        if known.wanted is None:
            return
        deadline = now + (known.settings.default_api_timeout_ms / 1000 if timeout is None else timeout)
        for held in known.held.values() if not commit else ():
            held.position = held.settled
        try:
            if known.subscribed:
                known.ask_back(known.held.values())
                yield from self._announce()
            else:
                self._commit_now_and_then(now, at_once=True)
            while known.commits and now < deadline:
                now = (yield Wait(deadline)).now
        finally:
            known.wanted, known.leave_by, known.overdue = None, deadline, False
            known.give_up(list(known.held.values()))
        while known.leaving and now < deadline:
            now = (yield Wait(deadline)).now
        yield from self._announce()


def flat(handed: list[Handed]) -> list[ConsumerRecord]:
    if len(handed) == 1:
        return handed[0].records or []
    every: list[ConsumerRecord] = []
    for each in handed:
        every += each.records or ()
    return every


def _announced(several: list[Held]) -> None:
    for held in several:
        held.announced = True


def _nothing(*_: Any) -> None:
    """Where there is nothing more to do."""
