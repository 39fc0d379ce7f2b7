"""What the writer asks of a journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from delta_log.journal.group_format import Frame, Payload, Place
from delta_log.journal.segment_scan import FoundFrame, Lost
from delta_log.journal.unreadable_groups import Unread

#: What refuses while the outcome of a write is open.
IN_DOUBT: Final = "the journal, whose last write is in doubt,"


@dataclass(slots=True)
class Recovered:
    """What earlier lives left: sound frames in the order in which they were written, and what could not be read."""

    frames: list[FoundFrame] = field(default_factory=list[FoundFrame])
    lost: list[Lost] = field(default_factory=list[Lost])
    damage: list[str] = field(default_factory=list[str])
    torn: list[str] = field(default_factory=list[str])
    #: groups of which not even the offsets are known
    untraceable: list[str] = field(default_factory=list[str])
    #: the bytes of such groups, and of others that could not be read
    unread: list[Unread] = field(default_factory=list[Unread])
    segments: int = 0
    size: int = 0


class Journal(Protocol):
    """One writer; `append` is called by one thread at a time.

    A segment is an (epoch, number) pair. `recover` comes first, once.
    """

    #: So many closed segments may wait before the oldest are copied forward, and so many of them at once.
    kept_segments: int
    copied_segments: int
    #: Why nothing can be appended before the outcome of a write is settled; None where an append may be tried.
    doubt: str | None
    #: How often such a doubt was settled, and when the last time was, by the monotonic clock.
    mended: int
    mended_at: float

    def recover(self) -> Recovered: ...

    def pace(self) -> None:
        """Wait until the next group may be written, where groups are rationed: who comes meanwhile is in it, too."""
        ...

    def append(self, frames: Sequence[Frame], payloads: Sequence[Payload]) -> list[Place]:
        """Make a group durable: it is when this returns.

        StorageRefused when surely nothing is stored, and the next append may follow; OutcomeUnknown when that cannot
        be said, and then nothing is appended before it is certain that this group will not count. NotOwner when
        somebody else took the journal over.
        """
        ...

    def read(self, place: Place) -> bytes:
        """A payload once more; FileNotFoundError when its segment was released."""
        ...

    def segments(self) -> list[tuple[int, int]]:
        """All closed segments that are still kept, oldest first; the one being written is not among them."""
        ...

    def release(self, segment: tuple[int, int], *, aside: bool = False) -> None:
        """Every frame of this closed segment is in its table: it need not be kept.

        `aside` keeps it all the same, where no later start replays it, because it holds frames of no table.
        """
        ...

    def give_back(self) -> None:
        """There is hardly any room: let go of what is only kept to be quick."""
        ...

    def close(self, *, empty: bool) -> None:
        """Stop. `empty` says that everything is in the tables: then nothing of the journal stays."""
        ...
