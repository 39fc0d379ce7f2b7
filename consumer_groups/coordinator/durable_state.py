"""Makes decisions durable: applied at once, so that the next builds on them, answered when they are on disk.

No decision waits for a sync in progress: decisions made meanwhile, of all groups and members, share the next one. The
price: a failed write also fails what was decided since. The ledger stores nothing of what was queued behind a failure.
Here all of it is taken back, the latest first, and only then is anything decided again. If a unit was refused at
commit (`last_word`) rather than failed, the decisions that built on it are made again, invisibly to their callers.

A large decision is made and applied in a thread; meanwhile nothing else is decided for its group (`large_decisions`).

It is used by one event loop. It knows decisions and the ledger; it must not know what is decided.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from consumer_groups.coordinator.large_decisions import Aside
from consumer_groups.coordinator.metrics import GroupMeter, stores_offsets
from consumer_groups.coordinator.tables import row_of
from consumer_groups.model.records import Record
from consumer_groups.state.decision import Decision, apply, record_liveness, refresh_group, undo
from consumer_groups.state.state import Group, Groups
from delta_log import Appended, LakelogError, Ledger, Prepared
from delta_log.keyed import Decide, EncodedRows
from delta_log.model.errors import Closed, InvalidRequest, PredecessorFailed, TopicClosed

T = TypeVar("T")
#: Tells whether a decision about a group is so large that it is made in a thread.
Large = Callable[[Group], bool]
#: After this long without a finished write, members could not be answered, and so could not send further requests.
STUCK_S: Final = 3.0


class Listener(Protocol):
    """Callbacks: a decision was applied; decisions that could not be written were taken back."""

    def applied(self, decision: Decision[Any], /) -> None: ...
    def taken_back(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A decision to make for one of several groups. `member_id`: the member that asks, and so lives."""

    group: str
    decide: Callable[[Group], Decision[Any]]
    member_id: str | None = None


@dataclass(slots=True, eq=False)
class Change:
    """Records being written. `outcome` is settled when they are durable, or were taken back."""

    number: int
    group: str
    displaced: list[Record]
    outcome: asyncio.Future[None]
    large: bool = False
    commits: bool = False
    error: BaseException | None = None


class DurableGroups:
    """State of the groups, as decisions see it, with what is being written."""

    def __init__(self, groups: Groups, ledger: Ledger, clock_ms: Callable[[], int], listener: Listener) -> None:
        self.groups = groups
        self.meter = GroupMeter()
        self._ledger = ledger
        self._clock_ms = clock_ms
        self._listener = listener
        self._number = 0
        self._under_way = 0
        self._moved_s = 0.0
        self.was_stuck = False
        self._last: dict[str, Change] = {}
        self._failed: list[Change] = []
        self._mended: asyncio.Future[None] | None = None
        self._aside = Aside(self._mend_when_idle)

    @property
    def stuck(self) -> bool:
        """True if writes are in progress and none has finished for `STUCK_S`."""
        return self._under_way > 0 and time.monotonic() - self._moved_s > STUCK_S

    async def do(
        self,
        group: str,
        decide: Callable[[Group], Decision[T]],
        *,
        member_id: str | None = None,
        large: Large | None = None,
    ) -> Decision[T]:
        """Decide, apply, write; returns when the decision and all that it builds on is durable.

        A refusal waits, too, as what it builds on may fail. Cancelling the wait changes nothing. A `large` decision is
        made in a thread.
        """
        return await self._until_it_stands((group,), lambda: self._do_once(group, decide, member_id, large))

    async def read(self, group: str, look: Callable[[Group], T], large: Large) -> T:
        """Read the current state, durable or not."""
        known = await self.free(group)
        if not large(known):
            return look(known)
        return await asyncio.shield(self._aside.start((group,), self._aside.run(lambda: look(known))))

    async def free(self, group: str) -> Group:
        """Return the group once no large decision of it is in progress."""
        while (over := self._aside.hindrance((group,))) is not None:
            await asyncio.shield(over)
        return self.groups.get(group)

    def is_busy(self, group: str) -> bool:
        return self._aside.is_busy(group)

    def when_free(self, group: str, act: Callable[[], object]) -> None:
        """Call `act` now, or once the large decision in progress is applied."""
        self._aside.when_free(group, act)

    def record_liveness(self, group: str, member_id: str) -> None:
        """Extend a member's session."""
        now_ms = self._clock_ms()
        self.when_free(group, lambda: record_liveness(self.groups, group, member_id, now_ms))

    def refresh(self) -> None:
        """Give every member a fresh full session, as requests could not be received."""
        now_ms = self._clock_ms()
        for name in list(self.groups.by_name):
            self.when_free(name, lambda name=name: refresh_group(self.groups, name, now_ms))

    async def do_beside(
        self, asked: Sequence[Asked], appends: Sequence[Prepared], last_word: Decide | None = None
    ) -> tuple[list[Decision[Any]], tuple[Appended, ...]]:
        """Store decisions, one for each group, and records for topics as one unit, all or nothing.

        The first refusal refuses all. `last_word` is called in the unit's turn at the journal: see `delta_log.keyed`.
        """
        if not asked:
            raise ValueError("a unit of this line needs a decision, which is taken back with it")
        groups = [each.group for each in asked]
        return await self._until_it_stands(groups, lambda: self._do_beside_once(asked, appends, last_word))

    async def _until_it_stands(self, groups: Sequence[str], do: Callable[[], Awaitable[T]]) -> T:
        """Repeat while the decision builds on a unit that was refused; there is one turn for each of these."""
        while True:
            while (over := self._mended or self._aside.hindrance(groups)) is not None:
                await asyncio.shield(over)
            with suppress(PredecessorFailed):
                return await do()

    async def _do_once(
        self, group: str, decide: Callable[[Group], Decision[T]], member_id: str | None, large: Large | None
    ) -> Decision[T]:
        known = self.groups.get(group)
        generation = known.generation
        if large is not None and large(known):
            return await self._do_aside(known, decide, member_id)
        decision = await self._decide(group, decide, member_id)
        if not decision.records:
            self.note(decision)
            await _stands(self._last.get(group))
            return decision
        self._write([decision])
        await asyncio.shield(self._last[group].outcome)
        self.meter.stored(decision, generation, commits=stores_offsets(decision))
        return decision

    async def _do_beside_once(
        self, asked: Sequence[Asked], appends: Sequence[Prepared], last_word: Decide | None
    ) -> tuple[list[Decision[Any]], tuple[Appended, ...]]:
        before = [self.groups.get(each.group).generation for each in asked]
        decisions = [await self._decide(each.group, each.decide, each.member_id) for each in asked]
        stored = self._write(decisions, appends, last_word)
        outcomes = [self._last[decision.group].outcome for decision in decisions]
        for outcome in outcomes:
            await asyncio.shield(outcome)
        for decision, generation in zip(decisions, before, strict=True):
            self.meter.stored(decision, generation, commits=stores_offsets(decision))
        return decisions, await stored

    async def _decide(self, group: str, decide: Callable[[Group], Decision[T]], member_id: str | None) -> Decision[T]:
        """Decide at once; only a refusal waits, as what it builds on may fail."""
        try:
            return decide(self.groups.get(group))
        except LakelogError:
            if member_id is not None:
                self.record_liveness(group, member_id)
            await _stands(self._last.get(group))
            raise

    async def _do_aside(
        self, known: Group, decide: Callable[[Group], Decision[T]], member_id: str | None
    ) -> Decision[T]:
        group, generation = known.name, known.generation
        said, change = await asyncio.shield(self._aside.start((group,), self._decide_aside(known, decide)))
        if isinstance(said, LakelogError):
            if member_id is not None:
                self.record_liveness(group, member_id)
            await _stands(change)
            raise said
        if not said.records:
            await _stands(change)
        elif change is not None:
            await asyncio.shield(change.outcome)
            self.meter.stored(said, generation, commits=change.commits)
        return said

    async def _decide_aside(
        self, known: Group, decide: Callable[[Group], Decision[T]]
    ) -> tuple[Decision[T] | LakelogError, Change | None]:
        """Make and apply a decision in a thread; returns it with its change, or a refusal with the change it builds on.

        Its rows are queued up before it is applied, as they may be refused.
        """

        def decide_and_encode() -> tuple[Decision[T] | LakelogError, EncodedRows, bool]:
            try:
                decision = decide(known)
            except LakelogError as error:
                return error, (), False
            rows = self._ledger.encode([row_of(record) for record in decision.records])
            return decision, rows, stores_offsets(decision)

        decision, rows, commits = await self._aside.run(decide_and_encode)
        if self._mended is not None:
            raise PredecessorFailed("what was decided before it could not be written")
        change = self._last.get(known.name)
        if isinstance(decision, LakelogError):
            return decision, change
        if decision.records:
            change = self._put_under_way(decision, self._ledger.queue_up_encoded(rows), large=True)
        displaced = await self._aside.run(lambda: apply(self.groups, decision))
        if decision.records and change is not None:
            change.displaced, change.commits = displaced, commits
        self._listener.applied(decision)
        return decision, change

    def note(self, decision: Decision[Any]) -> None:
        """Apply a decision without records, one that builds on durable state only, or whose loss does no harm.

        No large decision of its group may be in progress.
        """
        apply(self.groups, decision)
        self._listener.applied(decision)

    async def close(self, timeout_s: float) -> bool:
        """Wait for what is in progress; False on timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                while waiting := [*self._aside.over(), *(change.outcome for change in self._last.values())]:
                    await asyncio.wait(waiting)
        except TimeoutError:
            return False
        finally:
            self._aside.close()
        return True

    def _write(
        self, decisions: Sequence[Decision[Any]], appends: Sequence[Prepared] = (), last_word: Decide | None = None
    ) -> asyncio.Future[tuple[Appended, ...]]:
        rows = [row_of(record) for decision in decisions for record in decision.records]
        stored = self._ledger.queue_up(rows, appends, decide=last_word)
        for decision in decisions:
            self._put_under_way(decision, stored).displaced = apply(self.groups, decision)
            self._listener.applied(decision)
        return stored

    def _put_under_way(self, decision: Decision[Any], stored: asyncio.Future[Any], *, large: bool = False) -> Change:
        """Register a change whose rows are queued up, and which is about to be applied."""
        self._number += 1
        outcome = asyncio.get_running_loop().create_future()
        change = self._last[decision.group] = Change(self._number, decision.group, [], outcome, large)
        if not self._under_way:
            self._moved_s = time.monotonic()
        self._under_way += 1
        stored.add_done_callback(partial(self._settle, change))
        return change

    def _settle(self, change: Change, stored: asyncio.Future[Any]) -> None:
        """Settle a change. After a failure, all changes in progress end first: some may have been queued before it."""
        self.was_stuck |= self.stuck
        self._under_way -= 1
        self._moved_s = time.monotonic()
        change.error = Closed() if stored.cancelled() else stored.exception()
        if change.error is not None:
            self._failed.append(change)
            if self._mended is None:
                self._mended = asyncio.get_running_loop().create_future()
        else:
            if self._last.get(change.group) is change:
                del self._last[change.group]
            if change.large:  # freeing its undo records takes time
                self._aside.forget(change.displaced)
            change.outcome.set_result(None)
        self._mend_when_idle()

    def _mend_when_idle(self) -> None:
        if not self._failed or self._under_way or not self._aside.idle:
            return
        failed, self._failed = sorted(self._failed, key=lambda change: -change.number), []
        if any(change.large for change in failed):
            self._aside.start({change.group for change in failed}, self._mend_aside(failed))
        else:
            self._take_back(failed)
            self._end_mending(failed)

    async def _mend_aside(self, failed: Sequence[Change]) -> None:
        await self._aside.run(lambda: self._take_back(failed))
        self._end_mending(failed)

    def _take_back(self, failed: Sequence[Change]) -> None:
        now_ms = self._clock_ms()
        for change in failed:
            undo(self.groups, change.displaced, now_ms)

    def _end_mending(self, failed: Sequence[Change]) -> None:
        self._ledger.resume()
        self._last.clear()
        for change in reversed(failed):
            change.outcome.set_exception(change.error or Closed())
            change.outcome.exception()  # marks it as retrieved: there may be no waiter left
        mended, self._mended = self._mended, None
        if mended is not None:
            mended.set_result(None)
        self._listener.taken_back()


async def _stands(change: Change | None) -> None:
    """Wait until an earlier change is durable."""
    if change is not None:
        try:
            await asyncio.shield(change.outcome)
        except (InvalidRequest, TopicClosed) as refused:
            raise PredecessorFailed(refused) from refused
