"""Calls of a consumer's caller, in its own thread: subscribe, poll, commit, close. Pure.

Nothing here sends a request: a call changes the state, waits for the lanes, and runs the caller's callbacks. A call
with a timeout ends by then, whatever the server does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from lakelog.consume.buffer import Handed, mark
from lakelog.consume.consumer_state import ConsumerState, Offsets, PendingCommit
from lakelog.consume.effects import NOW, Doing, Wait
from lakelog.consume.partition_state import Held
from lakelog.consume.rebalance_callbacks import Announcing, Listener
from lakelog.consume.record_run import RecordRun
from lakelog.consume.shapes import ConsumerRecord, GroupOffsets
from lakelog.consume.subscription import Manual, Pattern, Topics
from lakelog.foundation.errors import CommitFailed, IllegalState, NoOffset, OutcomeUnknown, WokenUp
from lakelog.foundation.topic_partition import TopicPartition

_ALL = 1 << 62


class Calls:
    def __init__(self, known: ConsumerState) -> None:
        self.lent: list[ConsumerRecord] = []
        """The records lent to an iteration; `lent_used` counts those that it took."""
        self.lent_used = 0
        self._lent: list[Handed] = []
        self._known = known
        self._announcing = Announcing(known)
        self._auto_at = 0.0

    # --- what to read

    def subscribe(self, wanted: Topics | Pattern, listener: Listener, now: float) -> None:
        """Subscribe; partitions that are no longer subscribed are given up by the next poll."""
        known = self._known
        if isinstance(known.wanted, Manual):
            raise IllegalState("partitions were assigned: unsubscribe first")
        self._begin(now)
        self._announcing.listener, known.wanted = listener, wanted
        known.ask_back(held for held in known.held.values() if not known.wants(held.partition))

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
            known.held.setdefault(partition, Held(partition, None, announced=True, stage="kept"))

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Set positions; records of these partitions that were not handed out are dropped."""
        known = self._known
        several = [(self.held_at(partition), offset) for partition, offset in offsets.items()]
        if gone := next((held for held, _ in several if not held.stays), None):
            raise IllegalState(f"{gone.partition} is being revoked")
        self.put_back()
        for held, offset in several:
            held.seek(offset)
        known.buffer.purge()
        if isinstance(known.error, NoOffset):
            known.error = None
        known.touch()

    def named_or_all(self, partitions: Iterable[TopicPartition] | None) -> list[TopicPartition]:
        """Partitions to act on: the named ones, which must be assigned, or all that are assigned."""
        if partitions is None:
            return [held.partition for held in self._known.held.values() if held.announced and held.stays]
        return [self.held_at(partition).partition for partition in partitions]

    def pause(self, partitions: Iterable[TopicPartition], *, paused: bool) -> None:
        several = [self.held_at(partition) for partition in partitions]
        self.put_back()
        for held in several:
            held.paused = paused
        self._known.touch()

    def held_at(self, partition: TopicPartition) -> Held:
        self.mark()
        held = self._known.held.get(partition)
        if held is None:
            raise IllegalState(f"{partition} is not assigned to this consumer")
        return held

    def _begin(self, now: float) -> None:
        known = self._known
        known.polled_at, known.stopped, known.error = now, False, None
        known.touch()

    # --- reading

    def poll_rows(self, timeout: float | None, most: int) -> Doing[list[ConsumerRecord]]:
        return _flat((yield from self._poll(timeout, lambda: self._known.buffer.take(most, as_rows=True))))

    def poll_stretches(self, timeout: float | None, most: int | None) -> Doing[list[RecordRun]]:
        handed = yield from self._poll(timeout, lambda: self._known.buffer.take(most or _ALL, as_rows=False))
        return [each.stretch for each in handed]

    def lend(self, most: int) -> Doing[None]:
        """Poll records for an iteration, which takes them one by one."""
        handed = yield from self._poll(None, lambda: self._known.buffer.take(most, as_rows=True))
        self._lent, self.lent, self.lent_used = handed, _flat(handed), 0

    def put_back(self) -> None:
        """Return the records that an iteration did not use, to be handed out again."""
        lent, used = self._lent, self.lent_used
        self._lent, self.lent, self.lent_used = [], [], 0
        self._known.buffer.put_back(lent, used)

    def mark(self) -> None:
        """Set the positions to where an iteration is, without taking records from it."""
        mark(self._lent, self.lent_used)

    def _poll(self, timeout: float | None, take: Callable[[], list[Handed]]) -> Doing[list[Handed]]:
        known, now = self._known, (yield NOW).now
        deadline = None if timeout is None else now + max(0.0, timeout)
        if known.wanted is None:
            raise IllegalState("nothing is subscribed to, and no partition is assigned")
        if known.polling:
            raise IllegalState("a listener cannot poll")
        self.put_back()
        for held in known.held.values():
            held.settle()
        # Commit before a record's last attempt: if it kills this process, finished records must not be redelivered.
        self._commit_now_and_then(now, at_once=known.careful)
        known.polling, known.overdue, known.in_hand = True, False, None
        known.stopped = known.error is not None
        known.touch()
        try:
            while True:
                yield from self._announcing.run()
                self._check()
                handed = take()
                if handed or (deadline is not None and now >= deadline):
                    known.in_hand = min((each.answer for each in handed), default=None)
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

    # --- committing

    def commit(self, offsets: Offsets | None, timeout: float | None) -> Doing[None]:
        """Commit and wait until it is stored; raises the error if it is not."""
        now = (yield NOW).now
        made = self._commission(offsets, now, timeout, None)
        if made is None:
            return
        made.awaited = True
        while not made.decided:
            if now >= made.until:
                raise made.error or OutcomeUnknown("committing offsets", "it took too long")
            now = (yield Wait(made.until)).now
        if made.error is not None:
            raise made.error

    def commit_later(self, offsets: Offsets | None, callback: Callable[..., object] | None, now: float) -> None:
        """Commit without waiting; `callback` is called within a later call."""
        made = self._commission(offsets, now, None, callback)
        if made is None and callback is not None:  # nothing was left to commit
            self._known.decided.append(PendingCommit(deque(), {}, now, None, callback=callback, decided=True))

    def _commission(
        self, offsets: Offsets | None, now: float, timeout: float | None, callback: Callable[..., object] | None
    ) -> PendingCommit | None:
        known = self._known
        offsets = self._to_commit(offsets, now)
        patience = known.settings.default_api_timeout_ms / 1000 if timeout is None else timeout
        return known.commission(offsets, now + patience, callback=callback) if offsets else None

    def group_offsets(self, offsets: Offsets | None, now: float) -> GroupOffsets:
        """Offsets for a transaction to commit, with the member and its generation.

        The assignment of all partitions comes with one heartbeat, so the latest generation in which one was assigned
        holds for all: the heartbeat would have shown if another had been revoked and assigned again by then.
        """
        known = self._known
        if known.settings.enable_auto_commit:
            raise IllegalState("enable.auto.commit must be off: it would commit what a transaction aborts")
        offsets = self._to_commit(offsets, now)
        if known.member is None:
            raise IllegalState("this consumer is no member of its group now")
        given = [known.held[each].since if each in known.held else None for each in offsets]
        since = max((each for each in given if each is not None), default=known.generation)
        return GroupOffsets(known.settings.group_id, known.member, since if known.subscribed else None, offsets)

    def _to_commit(self, offsets: Offsets | None, now: float) -> Offsets:
        """The given offsets, or those of handed-out records; raises CommitFailed if their partitions were lost."""
        known = self._known
        if known.fatal is not None:
            raise known.fatal
        known.check_not_lost(None if offsets is None else offsets.keys())
        if known.wanted is None:
            raise IllegalState("nothing is subscribed to, and no partition is assigned")
        if known.overdue:
            raise CommitFailed("there was no poll for max.poll.interval.ms, so the partitions are others'")
        self.mark()
        return known.to_commit(known.held.values(), now) if offsets is None else offsets

    def _commit_now_and_then(self, now: float, *, at_once: bool = False) -> None:
        """Auto-commit: queue a commit of the records that the caller has finished."""
        known = self._known
        if not known.settings.enable_auto_commit or (not at_once and now < self._auto_at):
            return
        if any(each.auto for each in known.commits) and not at_once:
            return
        self._auto_at = now + known.settings.auto_commit_interval_ms / 1000
        offsets = known.to_commit((held for held in known.held.values() if held.stays), now)
        if offsets:
            known.commission(offsets, now + known.settings.default_api_timeout_ms / 1000, auto=True)

    def member_of(self, partition: TopicPartition) -> tuple[str, int | None]:
        """Member name and the generation in which the partition was assigned, for requests about it."""
        held = self.held_at(partition)
        if self._known.member is None:
            raise IllegalState("this consumer is no member of its group now")
        return self._known.member, held.since

    # --- the end

    def unsubscribe(self, timeout: float | None) -> Doing[None]:
        """Commit, run the caller's listeners, and leave the group."""
        yield from self._leave(timeout)

    def close(self, timeout: float | None, *, commit: bool, failing: bool = False) -> Doing[None]:
        """Close. `commit`: the records handed out last count as done; `failing`: as a failed attempt."""
        known = self._known
        known.failing = failing
        try:
            if not commit:
                self._take_back_the_last()
            yield from self._leave(timeout)
        finally:
            known.ended = True
            known.touch()

    def _take_back_the_last(self) -> None:
        """Count the last records as not done: an iteration's current record, otherwise those of the last poll."""
        if self._lent:
            self.lent_used = max(0, self.lent_used - 1)
            return
        for held in self._known.held.values():
            held.unsettle()

    def _leave(self, timeout: float | None) -> Doing[None]:
        known, now = self._known, (yield NOW).now
        self.put_back()
        if known.wanted is None:
            return
        deadline = now + (known.settings.default_api_timeout_ms / 1000 if timeout is None else timeout)
        try:
            if known.subscribed:
                known.ask_back(known.held.values())
                yield from self._announcing.run()
            else:
                self._commit_now_and_then(now, at_once=True)
            while known.commits and now < deadline:
                now = (yield Wait(deadline)).now
        finally:
            known.wanted, known.leave_by, known.overdue = None, deadline, False
            known.give_up(known.held.values())
        while known.leaving and now < deadline:
            now = (yield Wait(deadline)).now
        yield from self._announcing.run()


def _flat(handed: list[Handed]) -> list[ConsumerRecord]:
    if len(handed) == 1:
        return handed[0].records or []
    every: list[ConsumerRecord] = []
    for each in handed:
        every += each.records or ()
    return every
