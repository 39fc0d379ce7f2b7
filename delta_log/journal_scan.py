"""What a journal segment holds, found from nothing but its bytes.

Two marks tell a torn end from a damaged middle: every group says how far the journal was synced before it was
written, and a later segment proves the whole of an earlier one. What lies beyond the last mark may be half a write
that nobody was ever told of: it is cut. What is damaged below a mark was acknowledged: it is named and stepped over,
and its offsets are taken from the note in the group behind it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from delta_log.frames import (
    HEADER_SIZE,
    MAGIC,
    Directory,
    Frame,
    GroupHeader,
    Place,
    RangeNote,
    decode_directory,
    decode_header,
)


@dataclass(frozen=True, slots=True)
class FoundFrame:
    """A frame and where its payload lies; an unsound one is known by its offsets only."""

    frame: Frame
    place: Place
    sound: bool


@dataclass(frozen=True, slots=True)
class FoundGroup:
    header: GroupHeader
    position: int
    previous: Sequence[RangeNote]
    frames: Sequence[FoundFrame]

    @property
    def end(self) -> int:
        return self.position + self.header.size

    @property
    def sound(self) -> bool:
        return all(found.sound for found in self.frames)


@dataclass(slots=True)
class SegmentScan:
    """The readable groups of one segment. `end` is where its content stops."""

    epoch: int
    segment: int
    groups: list[FoundGroup] = field(default_factory=list[FoundGroup])
    damage: list[str] = field(default_factory=list[str])
    end: int = 0
    torn: bool = False


def scan_segment(data: bytes, *, epoch: int, segment: int, synced_length: int = 0) -> SegmentScan:
    """Read a segment. `synced_length` is what a later segment proves of this one; 0 when there is none."""
    scan = SegmentScan(epoch, segment)
    gaps = _find_groups(data, scan)
    mark = max([synced_length, *(_mark(group.header) for group in scan.groups)])
    for index, group in enumerate(scan.groups):
        if not group.sound and group.end > mark:
            del scan.groups[index:]
            scan.torn = True
            break
    scan.end = scan.groups[-1].end if scan.groups else 0
    _name_damage(data, scan, gaps, mark)
    return scan


def _mark(header: GroupHeader) -> int:
    return header.synced_length if header.synced_segment == header.segment else 0


def _find_groups(data: bytes, scan: SegmentScan) -> list[tuple[int, int]]:
    """Collect the groups of the segment's present life in order; returns the unreadable gaps between them."""
    gaps: list[tuple[int, int]] = []
    position, number = 0, 0
    while True:
        group = _group_at(data, position, scan.epoch, scan.segment, number)
        if group is None:
            following = _next_group(data, position + 1, scan.epoch, scan.segment, number)
            if following is None:
                return gaps
            gaps.append((position, following.position))
            group = following
        scan.groups.append(group)
        position, number = group.end, group.header.number + 1


def _group_at(data: bytes, position: int, epoch: int, segment: int, at_least: int) -> FoundGroup | None:
    view = memoryview(data)[position:]
    header = decode_header(view)
    if header is None or (header.epoch, header.segment) != (epoch, segment) or header.number < at_least:
        return None
    directory = decode_directory(header, view)
    if directory is None:
        return None
    return FoundGroup(header, position, directory.previous, _frames(view, position, header, directory))


def _next_group(data: bytes, start: int, epoch: int, segment: int, at_least: int) -> FoundGroup | None:
    at = data.find(MAGIC, start)
    while at >= 0:
        group = _group_at(data, at, epoch, segment, at_least)
        if group is not None:
            return group
        at = data.find(MAGIC, at + 1)
    return None


def _frames(view: memoryview, position: int, header: GroupHeader, directory: Directory) -> list[FoundFrame]:
    found: list[FoundFrame] = []
    at = HEADER_SIZE + header.directory_length
    for frame in directory.frames:
        payload = view[at : at + frame.length]
        sound = len(payload) == frame.length and zlib.crc32(payload) == frame.crc
        found.append(FoundFrame(frame, Place(header.epoch, header.segment, position + at, frame.length), sound))
        at += frame.length
    return found


def _name_damage(data: bytes, scan: SegmentScan, gaps: Sequence[tuple[int, int]], mark: int) -> None:
    for start, end in gaps:
        scan.damage.append(f"bytes {start} to {end} cannot be read")
    for group in scan.groups:
        for found in group.frames:
            if not found.sound:
                frame = found.frame
                scan.damage.append(
                    f"the payload of {frame.topic}-{frame.partition}, offsets {frame.base_offset} to "
                    f"{frame.next_offset - 1}, at byte {found.place.position} fails its checksum"
                )
    if mark > scan.end:
        scan.damage.append(f"bytes {scan.end} to {mark} cannot be read")
        scan.end = mark
    elif not scan.torn:
        rest = memoryview(data)[scan.end :]
        scan.torn = any(rest[:HEADER_SIZE]) and decode_header(rest) is None


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets that were given out and whose records cannot be read any more."""

    note: RangeNote
    why: str


def find_lost(scans: Sequence[SegmentScan]) -> tuple[list[Lost], list[str]]:
    """The lost ranges of one epoch's segments, in order, and what was lost without a trace.

    A group that cannot be read is known by the note in the group behind it. Where that one is gone too, nothing
    says which offsets were given out, and going on would mean to give them out again.
    """
    lost: list[Lost] = []
    untraceable: list[str] = []
    expected: int | None = None
    before: int | None = None
    for scan in scans:
        if before is not None and scan.segment != before + 1:
            expected = None  # the segments in between were released: all of them is in the tables
        before = scan.segment
        for group in scan.groups:
            number = group.header.number
            if expected is not None and number > expected:
                lost += [Lost(note, "its group cannot be read") for note in group.previous]
                if number > expected + 1:
                    untraceable.append(f"journal groups {expected} to {number - 2}")
            expected = number + 1
            for found in group.frames:
                if not found.sound:
                    frame = found.frame
                    note = RangeNote(frame.topic, frame.topic_id, frame.partition, frame.base_offset, frame.count)
                    lost.append(Lost(note, "its payload fails its checksum"))
    return lost, untraceable
