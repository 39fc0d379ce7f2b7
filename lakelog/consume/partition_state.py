"""One partition that a consumer has, and how far it is there. Pure.

    expected   behind what arrived: what the server is to give next
    position   behind what was handed out to the caller, or where he sought
    settled    the position when the caller last came back for more: he is done with what is before
    committed  what the group is known to have

It is `new` until the caller was told that it is his. It goes when the server, or the caller by another subscription,
asks for it (`asked`): the caller is told, and what he is done with is committed (`giving`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lakelog.foundation.topic_partition import TopicPartition

Stage = Literal["new", "kept", "asked", "giving"]


@dataclass(slots=True, eq=False)
class Held:
    """`since` is the generation in which it was given; None where that is no matter.

    `turns` tells apart what arrived before and after it was sought, or taken and given again.
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
    """What the server is to be told."""
    first: int | None = None
    """The first offset that arrived, as long as there is no position."""
    turns: int = 0

    @property
    def stays(self) -> bool:
        return self.stage in ("new", "kept")

    @property
    def readable(self) -> bool:
        return self.stage == "kept" and not self.paused

    @property
    def untouched(self) -> bool:
        """Nothing of it arrived, and the caller did not seek there."""
        return self.stays and self.expected is None

    @property
    def undone(self) -> bool:
        """Whether something was handed out and is not known to be committed."""
        return self.position is not None and self.position != self.committed

    @property
    def next_for_caller(self) -> int | None:
        """What he is to be given next; None where only the server knows."""
        return self.first if self.position is None else self.position

    def seek(self, offset: int) -> None:
        self.turns += 1
        self.sought = self.expected = self.position = self.settled = offset

    def settle(self) -> None:
        """The caller came back: he is done with what he was given."""
        self.settled = self.position

    def unsettle(self) -> None:
        """What the caller was given last does not count as done, unless it is committed already."""
        ahead = self.committed is not None and (self.settled is None or self.settled < self.committed)
        self.position = self.committed if ahead else self.settled
