"""What a consumer knows: what it reads, who it is in its group, what it has, and what went wrong. Pure.

All that happens to a consumer changes it here; nothing else remembers anything that two of the lanes need. So it is
past 300 lines.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from lakelog.consume.buffer import Buffer
from lakelog.consume.partition_state import Held
from lakelog.consume.settings import ConsumerSettings
from lakelog.consume.subscription import Manual, Pattern, Topics, Wanted
from lakelog.foundation.errors import CommitFailed, FencedInstance, LakelogError
from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition

NO_GENERATION: Final = -1
_SURELY: Final = 0.9
Offsets = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(slots=True, eq=False)
class PendingCommit:
    """A commit on its way. `parts` go one by one, each under its generation; `giving` goes when it is decided."""

    parts: deque[tuple[int | None, dict[TopicPartition, OffsetAndMetadata]]]
    offsets: dict[TopicPartition, OffsetAndMetadata]
    until: float
    member: str | None
    auto: bool = False
    awaited: bool = False
    callback: Callable[..., object] | None = None
    giving: tuple[Held, ...] = ()
    refused: LakelogError | None = None
    """Why a part of it is not stored."""
    error: LakelogError | None = None
    decided: bool = False
    doubted: bool = False


class Beat(NamedTuple):
    """The answer to a heartbeat. Of what is assigned it says in which generation it was given."""

    generation: int
    assigned: Mapping[TopicPartition, int]
    revoking: frozenset[TopicPartition]


@dataclass(slots=True, eq=False)
class ConsumerState:
    settings: ConsumerSettings
    buffer: Buffer
    wanted: Wanted | None = None
    told: Wanted | None = None
    """What the server was told to be wanted, by the present member."""
    member: str | None = None
    generation: int = NO_GENERATION
    heard_at: float = 0.0
    """When the server last spoke to the member."""
    held: dict[TopicPartition, Held] = field(default_factory=dict[TopicPartition, Held])
    left: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict[TopicPartition, tuple[int, int]])
    """What was given up: since when it had been ours, and what its caller was to be given next."""
    missed: dict[TopicPartition, list[tuple[int, int]]] = field(
        default_factory=dict[TopicPartition, list[tuple[int, int]]]
    )
    """What came of partitions that were not ours, or were going: in which generation, and from which offset on."""
    lost: dict[TopicPartition, bool] = field(default_factory=dict[TopicPartition, bool])
    """What the caller has not heard to be lost, and whether something of it was handed out and not committed."""
    commits: deque[PendingCommit] = field(default_factory=deque[PendingCommit])
    decided: deque[PendingCommit] = field(default_factory=deque[PendingCommit])
    """Those whose callbacks are to be called."""
    warnings: deque[str] = field(default_factory=deque[str])
    learn: bool = False
    """Whether to ask at once what is ours."""
    beats: int = 0
    learned: int = 0
    """How many heartbeats were sent, and the number of the last that was answered."""
    received: int = 0
    """The number of the last answer with records that arrived."""
    answers_lost: int = 0
    in_hand: int | None = None
    """The number of the oldest answer of which the caller has something, as long as he has not come back."""
    careful: bool = False
    """Whether the server gives, or is about to give, a record for the last time: it is to be alone in his hands."""
    failing: bool = False
    """Whether the member leaves as something could not be processed."""
    polling: bool = False
    polled_at: float = 0.0
    hungry: bool = False
    """Whether to read ahead."""
    overdue: bool = False
    woken: bool = False
    error: LakelogError | None = None
    stopped: bool = False
    """Until the next poll, as that failed."""
    fatal: LakelogError | None = None
    commits_doubted_until: float = 0.0
    """One that was lost on its way may come until then, and undo what was committed after it."""
    leave_by: float | None = None
    ended: bool = False
    changes: int = 0

    def touch(self) -> None:
        """Whoever waits looks again."""
        self.changes += 1

    @property
    def done(self) -> int:
        """The number of the last answer of which nothing is in the caller's hands, nor about to be."""
        open_ones = [each for each in (self.in_hand, self.buffer.oldest_answer) if each is not None]
        return max(0, min(open_ones) - 1) if open_ones else self.received

    @property
    def subscribed(self) -> bool:
        return isinstance(self.wanted, Topics | Pattern)

    @property
    def leaving(self) -> bool:
        return self.leave_by is not None

    @property
    def settled_in(self) -> bool:
        """A member that reads what is wanted."""
        return self.member is not None and self.wanted is not None and self.told == self.wanted

    def wants(self, partition: TopicPartition) -> bool:
        match self.wanted:
            case Topics(names):
                return partition.topic in names
            case Manual(partitions):
                return partition in partitions
            case Pattern():
                return self.told == self.wanted
            case None:
                return False

    @property
    def may_tell(self) -> bool:
        """What is not wanted any more was committed, and given up."""
        if isinstance(self.wanted, Manual):
            return not any(each.auto for each in self.commits)
        return all(self.wants(partition) for partition in self.held)

    def fail(self, error: LakelogError) -> None:
        """The next poll raises it, and the one behind that tries again."""
        self.error, self.stopped = error, True
        self.touch()

    # --- partitions come and go

    def hear(self, beat: Beat) -> None:
        """What is ours, by the server."""
        self.generation, self.learned = beat.generation, self.beats
        self.touch()
        if not self.subscribed or self.told != self.wanted:
            return
        for held in list(self.held.values()):
            since = beat.assigned.get(held.partition)
            if since is not None:
                if since != held.since:
                    self._regain(held, since)
            elif held.partition in beat.revoking:
                self.ask_back([held])
            elif held.stage == "giving":
                self._drop(held)
            elif held.undone and not self._is_being_committed(held):
                self.lose([held])
            else:  # taken while nothing was open: as if it had been asked for
                self.ask_back([held])
        for partition in sorted(beat.assigned.keys() - self.held.keys()):
            self._take_up(partition, beat.assigned[partition])

    def ask_back(self, several: Iterable[Held]) -> None:
        """They are to go; of what the caller has not heard of he need not hear."""
        for held in list(several):
            if not held.announced:
                self.give_up([held])
            elif held.stays:
                held.stage = "asked"
                self._forget_records(held)
        self.touch()

    def give_up(self, several: Iterable[Held]) -> None:
        """The server is told by the next heartbeat."""
        for held in list(several):
            self._drop(held)
        self.learn = True
        self.touch()

    def lose(self, several: Iterable[Held]) -> None:
        """They are others' already. Of what is going the caller has heard."""
        for held in list(several):
            if self._drop(held) and held.announced and held.stage != "giving":
                self.lost[held.partition] = held.undone
        self.learn = True
        self.touch()

    def _regain(self, held: Held, since: int) -> None:
        """It was taken and given again unseen: what is in hand is of the past, and so is where the caller sought."""
        if held.untouched:
            held.since = since
        elif held.stage == "giving":
            self._drop(held)
        elif held.undone and not self._is_being_committed(held):
            self.lose([held])
        else:
            self.ask_back([held])

    def _take_up(self, partition: TopicPartition, since: int) -> None:
        """Where it never ceased to be ours the server goes on behind what we let go, so we say where we were."""
        held = self.held[partition] = Held(partition, since)
        missed = [offset for generation, offset in self.missed.pop(partition, ()) if generation >= since]
        left_since, offset = self.left.pop(partition, (NO_GENERATION, 0))
        if left_since == since:
            held.seek(offset)
        elif missed:
            held.seek(min(missed))

    def miss(self, partition: TopicPartition, generation: int, offset: int) -> None:
        """Records from there on came, and are not taken."""
        self.missed.setdefault(partition, []).append((generation, offset))

    def _drop(self, held: Held) -> bool:
        if self.held.get(held.partition) is not held:
            return False
        del self.held[held.partition]
        if held.next_for_caller is not None and held.since is not None:
            self.left[held.partition] = held.since, held.next_for_caller
        self._forget_records(held)
        return True

    def _forget_records(self, held: Held) -> None:
        held.turns += 1
        self.buffer.purge()

    def _is_being_committed(self, held: Held) -> bool:
        return any(
            held.partition in each.offsets and each.offsets[held.partition].offset == held.position
            for each in self.commits
        )

    # --- the membership ends

    def leave_membership(self) -> None:
        """There is no member any more. Who reads partitions of his own choice goes on where he is."""
        self.member = self.told = None
        self.generation, self.received, self.answers_lost = NO_GENERATION, 0, 0
        self.in_hand, self.careful, self.failing = None, False, False
        self.buffer.forget_answers()
        if self.subscribed:
            self.lose(self.held.values())
            self.left.clear()
            self.missed.clear()
        else:
            self.go_on_where_we_are()
        self.touch()

    def go_on_where_we_are(self) -> None:
        """The server forgot where it was in what is ours."""
        for held in self.held.values():
            if held.expected is not None and held.sought is None:
                held.sought = held.expected

    def expelled(self, member: str | None, now: float) -> None:
        """The server knows a member no more: its time was over, or, of a static one, another has its place.

        An answer to one that we were before says nothing of the one that we are.
        """
        name, session_s = self.settings.group_instance_id, self.settings.session_timeout_ms / 1000
        if self.leaving or self.member is None or member != self.member:
            return
        if name is not None and now - self.heard_at < _SURELY * session_s:
            self.fatal = FencedInstance(name)
        else:
            self.warnings.append(f"the group {self.settings.group_id!r} went on without this consumer: it joins again")
        self.leave_membership()

    # --- commits

    def to_commit(self, several: Iterable[Held], now: float) -> dict[TopicPartition, OffsetAndMetadata]:
        """What was handed out of these and is not committed yet, or may not be any more."""
        anew = now < self.commits_doubted_until
        return {
            held.partition: OffsetAndMetadata(held.position)
            for held in several
            if held.position is not None and (anew or held.position != held.committed)
        }

    def commission(self, offsets: Offsets, until: float, **more: Any) -> PendingCommit:
        """Queue a commit."""
        by_generation: dict[int | None, dict[TopicPartition, OffsetAndMetadata]] = {}
        for partition, offset in offsets.items():
            held = self.held.get(partition)
            since = held.since if held is not None else self.generation if self.subscribed else None
            by_generation.setdefault(since, {})[partition] = offset
        made = PendingCommit(deque(by_generation.items()), dict(offsets), until, self.member, **more)
        self.commits.append(made)
        self.touch()
        return made

    def check_not_lost(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Refuse a commit of what was lost, before the caller has heard of that."""
        undone = [each for each, undone in self.lost.items() if (undone if partitions is None else each in partitions)]
        if undone:
            raise CommitFailed(
                f"the group went on without this consumer: it lost {', '.join(map(str, sorted(undone)))}"
            )
