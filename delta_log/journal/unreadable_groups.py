"""What neighbouring unreadable groups of a journal may have given out, when nothing says what they did. Pure.

A group that cannot be read is known by the one behind it. Where that one is gone, too, this can be known all the same:

- Only tables that the epoch of those groups owned can have been given offsets by them: an owner writes its epoch to a
  table first. One that a later owner took over has everything that was readable then, and goes on behind it.
- A record takes a byte of the journal at least. So unreadable bytes gave out no more offsets than they are many.
- Where a frame was written behind the last unreadable byte, it says itself where its partition was by then. Only frames
  that were copied forward tell nothing: they are older than what lies before the damage.

So what is in doubt is bounded, and skipped by whoever goes on: no offset is given out twice, and none but those tables
have a hole from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from delta_log.journal.group_format import RangeNote
from delta_log.journal.object_scan import FoundObject
from delta_log.journal.segment_scan import FoundFrame, Lost, SegmentScan

#: What a file or an object whose length is not known any more can have held.
UNKNOWN_SIZE: Final = 16 * 1024 * 1024
_NEWEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Unread:
    """Bytes of the epochs from `first_epoch` to `last_epoch` that no group could be made of.

    `size` is never less than there was; `last` is where the last of them end, as (segment, position); `segments` are
    those that hold them.
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
    """What a table says: whose it is, and where each partition ends. A deleted one gives out nothing any more."""

    name: str
    id: str
    epoch: int
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Doubt:
    """Offsets that groups which cannot be read may have given out: at most so many, from here on."""

    table: str
    table_id: str
    partition: int
    first: int
    most: int

    def __str__(self) -> str:
        return f"{self.table}-{self.partition} {self.first} to {self.first + self.most - 1}"


def plan_doubts(frames: Sequence[FoundFrame], unread: Sequence[Unread], tables: Sequence[TableEnds]) -> list[Doubt]:
    """For each partition that no later frame speaks of, what may have been given out there."""
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
    """As a recovery takes it."""
    return [
        Lost(
            RangeNote(each.table, each.table_id, each.partition, each.first, each.most),
            "unreadable groups may have given it out",
        )
        for each in doubts
    ]


def unread_of_segments(scans: Sequence[SegmentScan], lengths: Mapping[int, int]) -> list[Unread]:
    """Of one epoch's segments, whose files are of these lengths by their numbers."""
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
    """An object that cannot be read does not say whose it is: of any epoch between those that are around it."""
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
    """What lies in the journal of a later epoch is a copy, and so from before."""
    return each.place.epoch == each.frame.epoch and (each.place.segment, each.place.position) >= last


def _gaps(scan: SegmentScan) -> list[tuple[int, int]]:
    """Between groups, and behind the last of them."""
    at = 0
    gaps: list[tuple[int, int]] = []
    for group in scan.groups:
        if group.position > at:
            gaps.append((at, group.position))
        at = group.end
    return [*gaps, (at, scan.end)] if scan.end > at else gaps


def _cut_off(scan: SegmentScan, following: SegmentScan | None, length: int) -> int:
    """How many bytes may have been behind what is known of a segment, where the next one does not tell its length.

    A file that ends right there may have been cut, by so much as a segment can hold.
    """
    if following is None or following.segment != scan.segment + 1:
        return 0
    first = following.groups[0] if following.groups else None
    if first is not None and first.header.synced_segment == scan.segment:
        return 0
    rest = length - scan.end
    return rest if rest > 0 else UNKNOWN_SIZE
