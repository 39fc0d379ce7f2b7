"""State of a consumer: its subscription, membership, partitions, commits and errors. Pure.

All state that two lanes need is here and nowhere else, so the module is longer than 300 lines.
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
    """A queued commit. `parts` are sent one by one, each with its generation; `giving` is given up once decided."""

    parts: deque[tuple[int | None, dict[TopicPartition, OffsetAndMetadata]]]
    offsets: dict[TopicPartition, OffsetAndMetadata]
    until: float
    member: str | None
    auto: bool = False
    awaited: bool = False
    callback: Callable[..., object] | None = None
    giving: tuple[Held, ...] = ()
    refused: LakelogError | None = None
    """Error of a part that was refused."""
    error: LakelogError | None = None
    decided: bool = False
    doubted: bool = False


class Beat(NamedTuple):
    """The answer to a heartbeat; `assigned` has the generation in which each partition was assigned."""

    generation: int
    assigned: Mapping[TopicPartition, int]
    revoking: frozenset[TopicPartition]


@dataclass(slots=True, eq=False)
class ConsumerState:
    settings: ConsumerSettings
    buffer: Buffer
    wanted: Wanted | None = None
    told: Wanted | None = None
    """The subscription that the current member has sent to the server."""
    member: str | None = None
    generation: int = NO_GENERATION
    heard_at: float = 0.0
    """Time of the server's last successful answer to the member."""
    held: dict[TopicPartition, Held] = field(default_factory=dict[TopicPartition, Held])
    left: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict[TopicPartition, tuple[int, int]])
    """Partitions given up: the generation of their assignment, and the caller's next offset."""
    missed: dict[TopicPartition, list[tuple[int, int]]] = field(
        default_factory=dict[TopicPartition, list[tuple[int, int]]]
    )
    """Records skipped because their partition was not assigned or being revoked: generation and first offset."""
    lost: dict[TopicPartition, bool] = field(default_factory=dict[TopicPartition, bool])
    """Lost partitions not announced to the caller yet; True if handed-out records were not committed."""
    commits: deque[PendingCommit] = field(default_factory=deque[PendingCommit])
    decided: deque[PendingCommit] = field(default_factory=deque[PendingCommit])
    """Decided commits whose callbacks are pending."""
    warnings: deque[str] = field(default_factory=deque[str])
    learn: bool = False
    """Whether to send a heartbeat at once, to learn the assignment."""
    beats: int = 0
    learned: int = 0
    """`beats` counts the heartbeats sent; `learned` is the number of the last one answered."""
    received: int = 0
    """Number of the last answer to a fetch that arrived."""
    answers_lost: int = 0
    in_hand: int | None = None
    """Number of the oldest answer with records in the caller's hands, until the next poll."""
    careful: bool = False
    """Whether a record's last attempt is delivered now or next: the caller must then hold no other record."""
    failing: bool = False
    """Whether the member leaves because records could not be processed."""
    polling: bool = False
    polled_at: float = 0.0
    hungry: bool = False
    """Whether to prefetch."""
    overdue: bool = False
    woken: bool = False
    error: LakelogError | None = None
    stopped: bool = False
    """Whether the lanes pause until the next poll, after an error."""
    fatal: LakelogError | None = None
    commits_doubted_until: float = 0.0
    """Until then a commit with unknown outcome may still arrive, and overwrite a later one."""
    leave_by: float | None = None
    ended: bool = False
    changes: int = 0

    def touch(self) -> None:
        """Count a change, so that waiters check the state again."""
        self.changes += 1

    @property
    def done(self) -> int:
        """Number of the last answer of which no record is buffered or in the caller's hands."""
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
        """True if there is a member with the current subscription."""
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
        """True if the new subscription may be sent: partitions no longer in it are committed and given up."""
        if isinstance(self.wanted, Manual):
            return not any(each.auto for each in self.commits)
        return all(self.wants(partition) for partition in self.held)

    def fail(self, error: LakelogError) -> None:
        """Let the next poll raise the error; the poll after it tries again."""
        self.error, self.stopped = error, True
        self.touch()

    # --- partitions come and go

    def hear(self, beat: Beat) -> None:
        """Apply the assignment in a heartbeat's answer."""
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
            else:  # taken away with nothing uncommitted: treat it as revoked
                self.ask_back([held])
        for partition in sorted(beat.assigned.keys() - self.held.keys()):
            self._take_up(partition, beat.assigned[partition])

    def ask_back(self, several: Iterable[Held]) -> None:
        """Revoke partitions; those not announced to the caller are given up without a callback."""
        for held in list(several):
            if not held.announced:
                self.give_up([held])
            elif held.stays:
                held.stage = "asked"
                self._forget_records(held)
        self.touch()

    def give_up(self, several: Iterable[Held]) -> None:
        """Give up partitions; the next heartbeat reports it to the server."""
        for held in list(several):
            self._drop(held)
        self.learn = True
        self.touch()

    def lose(self, several: Iterable[Held]) -> None:
        """Drop partitions that other members own already, and announce the loss unless revocation was announced."""
        for held in list(several):
            if self._drop(held) and held.announced and held.stage != "giving":
                self.lost[held.partition] = held.undone
        self.learn = True
        self.touch()

    def _regain(self, held: Held, since: int) -> None:
        """Handle a partition that was reassigned unnoticed: its records and seeks are of the old assignment."""
        if held.untouched:
            held.since = since
        elif held.stage == "giving":
            self._drop(held)
        elif held.undone and not self._is_being_committed(held):
            self.lose([held])
        else:
            self.ask_back([held])

    def _take_up(self, partition: TopicPartition, since: int) -> None:
        """Add an assigned partition; seek if it stayed assigned while records of it were dropped here."""
        held = self.held[partition] = Held(partition, since)
        missed = [offset for generation, offset in self.missed.pop(partition, ()) if generation >= since]
        left_since, offset = self.left.pop(partition, (NO_GENERATION, 0))
        if left_since == since:
            held.seek(offset)
        elif missed:
            held.seek(min(missed))

    def miss(self, partition: TopicPartition, generation: int, offset: int) -> None:
        """Note records from an offset on that arrived and were not taken."""
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
        """Reset after the membership ended; manually assigned partitions continue at their positions."""
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
        """Seek all partitions to their expected offsets: the server lost its positions."""
        for held in self.held.values():
            if held.expected is not None and held.sought is None:
                held.sought = held.expected

    def expelled(self, member: str | None, now: float) -> None:
        """Handle an unknown member: its session expired, or another process took a static member's place.

        An answer to a former member of this consumer is ignored.
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
        """Positions of partitions that are not committed, or whose commit may be overwritten."""
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
        """Refuse to commit lost partitions while the loss is not announced to the caller."""
        undone = [each for each, undone in self.lost.items() if (undone if partitions is None else each in partitions)]
        if undone:
            raise CommitFailed(
                f"the group went on without this consumer: it lost {', '.join(map(str, sorted(undone)))}"
            )
