"""The journal's protocol, as the writer uses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from delta_log.journal.group_format import Frame, Payload, Place
from delta_log.journal.segment_scan import FoundFrame, Lost
from delta_log.journal.unreadable_groups import Unread

#: Subject of the refusal while the outcome of a write is unknown.
IN_DOUBT: Final = "the journal, whose last write is in doubt,"


@dataclass(slots=True)
class Recovered:
    """Recovered content of earlier lives: sound frames in the order written, and a report of unreadable data."""

    frames: list[FoundFrame] = field(default_factory=list[FoundFrame])
    lost: list[Lost] = field(default_factory=list[Lost])
    damage: list[str] = field(default_factory=list[str])
    torn: list[str] = field(default_factory=list[str])
    #: lost groups whose offsets are unknown, too
    untraceable: list[str] = field(default_factory=list[str])
    #: extents of unreadable bytes, of these groups and others
    unread: list[Unread] = field(default_factory=list[Unread])
    segments: int = 0
    size: int = 0


class Journal(Protocol):
    """A journal with one writer; `append` is called by one thread at a time.

    A segment is an (epoch, number) pair. `recover` is called first, once.
    """

    #: Closed segments kept before the oldest are copied forward, and how many of these are copied at once.
    kept_segments: int
    copied_segments: int
    #: Why appends are refused until the outcome of a write is settled; None if an append may be tried.
    doubt: str | None
    #: Number of doubts settled, and the monotonic time of the last one.
    mended: int
    mended_at: float

    def recover(self) -> Recovered: ...

    def pace(self) -> None:
        """Wait until the next group may be written, if groups are rate-limited; later requests join it meanwhile."""
        ...

    def append(self, frames: Sequence[Frame], payloads: Sequence[Payload]) -> list[Place]:
        """Write a group; it is durable when this returns.

        StorageRefused if certainly nothing is stored, and the next append may follow; OutcomeUnknown if that is
        uncertain: then nothing is appended until it is certain that this group will not count. NotOwner if another
        owner took the journal over.
        """
        ...

    def read(self, place: Place) -> bytes:
        """Read a payload back; FileNotFoundError if its segment was released."""
        ...

    def segments(self) -> list[tuple[int, int]]:
        """The closed segments that are still kept, oldest first; without the one being written."""
        ...

    def release(self, segment: tuple[int, int], *, aside: bool = False) -> None:
        """Release a closed segment, of which every frame is in its table.

        `aside`: keep it where no later start replays it, because it has frames that belong to no table.
        """
        ...

    def give_back(self) -> None:
        """Free space that is only kept for speed, as the disk is nearly full."""
        ...

    def close(self, *, empty: bool) -> None:
        """Stop. `empty`: everything is in the tables, so the journal's files are deleted."""
        ...
