"""Bounds the offsets that adjacent unreadable groups of a journal may have assigned. Pure.

The ranges of an unreadable group are repeated in the next one. If that one is unreadable, too, these bounds remain:

- Only tables that the epoch of those groups owned can have got offsets from them: an owner writes its epoch to a
  table first. A table that a later owner took over has everything readable at that time, and continues after it.
- A record takes at least one byte of the journal. So unreadable bytes assigned at most one offset each.
- A frame written behind the last unreadable byte shows the log end offset of its partition by then. Only frames that
  were copied forward show nothing: they are older than the frames before the damage.

So the doubtful offsets are bounded, and the next owner skips them: no offset is assigned twice, and only those tables
have a gap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from delta_log.journal.group_format import RangeNote
from delta_log.journal.object_scan import FoundObject
from delta_log.journal.segment_scan import FoundFrame, Lost, SegmentScan

#: Assumed size of a file or an object whose length is unknown.
UNKNOWN_SIZE: Final = 16 * 1024 * 1024
_NEWEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Unread:
    """Unreadable bytes, written in the epochs from `first_epoch` to `last_epoch`.

    `size` is an upper bound; `last` is the end of the last of them, as (segment, position); `segments` contain them.
    """

    first_epoch: int
    last_epoch: int
    size: int
    last: tuple[int, int]
    segments: tuple[tuple[int, int], ...]

    def concerns(self, epoch: int) -> bool:
        return self.first_epoch <= epoch <= self.last_epoch


@dataclass(frozen=True, slots=True)
class TableEnds:
    """A table's owner epoch, and the end of each partition. A deleted one assigns no offsets any more."""

    name: str
    id: str
    epoch: int
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Offsets that unreadable groups may have assigned: at most `most`, from `first` on."""

    table: str
    table_id: str
    partition: int
    first: int
    most: int

    def __str__(self) -> str:
        return f"{self.table}-{self.partition} {self.first} to {self.first + self.most - 1}"


def plan_doubts(frames: Sequence[FoundFrame], unread: Sequence[Unread], tables: Sequence[TableEnds]) -> list[Doubt]:
    """The offsets in doubt of each partition that has no later frame."""
    doubts: list[Doubt] = []
    for table in tables:
        concerned = [each for each in unread if each.concerns(table.epoch)]
        if concerned:
            size, last = sum(each.size for each in concerned), max(each.last for each in concerned)
            written = [each for each in frames if each.frame.epoch == table.epoch]
            newest_ms = max((each.frame.timestamp_ms for each in written if not _is_behind(each, last)), default=0)
            own = [
                each
                for each in written
                if (each.frame.topic, each.frame.topic_id) == (table.name, table.id) and each.frame.count
            ]
            doubts += _doubts(table, own, size, last, newest_ms)
    return doubts


def lost_of(doubts: Sequence[Doubt]) -> list[Lost]:
    """Convert doubts to the lost ranges that a recovery expects."""
    return [
        Lost(
            RangeNote(each.table, each.table_id, each.partition, each.first, each.most),
            "unreadable groups may have given it out",
        )
        for each in doubts
    ]


def unread_of_segments(scans: Sequence[SegmentScan], lengths: Mapping[int, int]) -> list[Unread]:
    """Unreadable bytes of one epoch's segments; `lengths` of their files by number."""
    found: list[Unread] = []
    for scan, following in zip_longest(scans, scans[1:]):
        gaps = _gaps(scan)
        cut = _cut_off(scan, following, lengths.get(scan.segment, 0))
        if gaps or cut:
            size = sum(end - start for start, end in gaps) + cut
            last = (scan.segment, scan.end if cut else gaps[-1][1])
            found.append(Unread(scan.epoch, scan.epoch, size, last, ((scan.epoch, scan.segment),)))
    return found


def unread_of_objects(objects: Sequence[FoundObject], lengths: Mapping[int, int]) -> list[Unread]:
    """Unreadable objects; their epoch is unknown: any between those of the objects around them."""
    found: list[Unread] = []
    before = 0
    waiting: list[FoundObject] = []
    for each in [*objects, None]:
        if each is not None and not each.readable:
            waiting += [] if each.is_fence else [each]
            continue
        behind = each.epoch if each is not None else _NEWEST
        for one in waiting:
            length = lengths.get(one.number, 0)
            segment = ((one.epoch, one.number),)
            found.append(Unread(before, behind, max(length, UNKNOWN_SIZE), (one.number, length), segment))
        before, waiting = behind, []
    return found


def _doubts(
    table: TableEnds, frames: Sequence[FoundFrame], size: int, last: tuple[int, int], newest_ms: int
) -> list[Doubt]:
    doubts: list[Doubt] = []
    for partition, end in enumerate(table.ends):
        own = [each for each in frames if each.frame.partition == partition]
        before = max((e.frame.next_offset for e in own if not _is_behind(e, last)), default=0)
        later = [
            each
            for each in own
            if _is_behind(each, last) and each.frame.timestamp_ms >= newest_ms and each.frame.base_offset >= before
        ]
        if not later:
            known = max([end, *(each.frame.next_offset for each in own)])
            doubts.append(Doubt(table.name, table.id, partition, known, size))
    return doubts


def _is_behind(each: FoundFrame, last: tuple[int, int]) -> bool:
    """True if the frame was written behind `last`; a copy in the journal of a later epoch is from before."""
    return each.place.epoch == each.frame.epoch and (each.place.segment, each.place.position) >= last


def _gaps(scan: SegmentScan) -> list[tuple[int, int]]:
    """The unreadable gaps between groups, and behind the last of them."""
    at = 0
    gaps: list[tuple[int, int]] = []
    for group in scan.groups:
        if group.position > at:
            gaps.append((at, group.position))
        at = group.end
    return [*gaps, (at, scan.end)] if scan.end > at else gaps


def _cut_off(scan: SegmentScan, following: SegmentScan | None, length: int) -> int:
    """Number of bytes that may have been behind a segment's known content, if the next one does not show its length.

    A file that ends right there may have been truncated, by up to the size of a segment.
    """
    if following is None or following.segment != scan.segment + 1:
        return 0
    first = following.groups[0] if following.groups else None
    if first is not None and first.header.synced_segment == scan.segment:
        return 0
    rest = length - scan.end
    return rest if rest > 0 else UNKNOWN_SIZE
