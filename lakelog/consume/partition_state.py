"""State of one assigned partition of a consumer. Pure.

    expected   next offset from the server, behind the last that arrived
    position   next offset for the caller, behind the last that was handed out, or where it sought
    settled    position at the caller's last poll: all records below it are done
    committed  the group's committed offset, as far as known

It is `new` until its assignment is announced to the caller. When the server revokes it, or the caller's new
subscription lacks it, it is `asked`; while the caller is notified and its finished records are committed, `giving`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakelog.foundation.topic_partition import TopicPartition

Stage = Literal["new", "kept", "asked", "giving"]


@dataclass(slots=True, eq=False)
class Held:
    """A partition that a consumer holds. `since`: the generation in which it was assigned; None for manual assignment.

    `turns` is counted up by seeks and revocations, and tells records from before and after them apart.
    """

    partition: TopicPartition
    since: int | None
    announced: bool = False
    stage: Stage = "new"
    paused: bool = False
    expected: int | None = None
    position: int | None = None
    settled: int | None = None
    committed: int | None = None
    sought: int | None = None
    """Offset of a seek that the server does not know yet."""
    first: int | None = None
    """The first offset that arrived; it counts while there is no position."""
    turns: int = 0

    @property
    def stays(self) -> bool:
        return self.stage in ("new", "kept")

    @property
    def readable(self) -> bool:
        return self.stage == "kept" and not self.paused

    @property
    def untouched(self) -> bool:
        """True if no record of it arrived, and the caller did not seek."""
        return self.stays and self.expected is None

    @property
    def undone(self) -> bool:
        """True if records were handed out and are not known to be committed."""
        return self.position is not None and self.position != self.committed

    @property
    def next_for_caller(self) -> int | None:
        """Next offset for the caller; None if only the server knows it."""
        return self.first if self.position is None else self.position

    def seek(self, offset: int) -> None:
        self.turns += 1
        self.sought = self.expected = self.position = self.settled = offset

    def settle(self) -> None:
        """Mark all records handed out as done: the caller polls again."""
        self.settled = self.position

    def unsettle(self) -> None:
        """Mark the records handed out last as not done, unless they are committed already."""
        ahead = self.committed is not None and (self.settled is None or self.settled < self.committed)
        self.position = self.committed if ahead else self.settled
