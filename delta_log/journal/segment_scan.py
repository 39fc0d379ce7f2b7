"""Scan of a journal segment, from its bytes and its name alone.

Two marks distinguish a torn end from a damaged middle: every group records how far the journal was synced before it
was written, and a later segment proves an earlier one whole, as a writer syncs everything before it begins the next.
Bytes beyond the last mark may be a partial write that was never acknowledged: they are cut, and reported, as damage to
the very last group looks the same. Data damaged below a mark was acknowledged: it is reported and skipped, and its
offsets are taken from the note in the next group.
A file that ends where a group ends was truncated there, by a recovery that found the group whole and synced it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from delta_log.journal.group_format import (
    HEADER_SIZE,
    MAGIC,
    MARK_AT,
    Directory,
    Frame,
    GroupHeader,
    Place,
    RangeNote,
    checksum,
    decode_directory,
    decode_header,
    header_mark,
    notes_of,
)


@dataclass(frozen=True, slots=True)
class FoundFrame:
    """A frame and the place of its payload; of an unsound one only the offsets are known."""

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
    """The readable groups of one segment. `end`: the end of its content."""

    life: int
    epoch: int
    segment: int
    groups: list[FoundGroup] = field(default_factory=list[FoundGroup])
    damage: list[str] = field(default_factory=list[str])
    end: int = 0
    torn: bool = False

    @property
    def groups_end(self) -> int:
        return self.groups[-1].end if self.groups else 0


def scan_segment(
    data: bytes, *, life: int, epoch: int, segment: int, closed: bool = False, synced_length: int = 0
) -> SegmentScan:
    """Scan a segment. `closed`: there is a later one. `synced_length`: recorded there for this one; 0 if nothing is."""
    scan = SegmentScan(life, epoch, segment)
    gaps = _find_groups(data, scan)
    mark = max([synced_length, *(_mark(group.header) for group in scan.groups)])
    behind = memoryview(data)[scan.groups_end :]
    headless = _own_header(behind, scan)
    ends = {scan.groups_end, scan.groups_end + headless.size} if headless is not None else {scan.groups_end}
    closed = closed or len(data) in ends
    for index, group in enumerate(scan.groups):
        if not group.sound and group.end > mark and not closed:
            del scan.groups[index:]
            scan.torn = True
            break
    if headless is not None and closed:
        mark = max(mark, scan.groups_end + headless.size)
    scan.end = max(mark, scan.groups_end)
    scan.torn = scan.torn or (scan.end == scan.groups_end and (headless is not None or _is_broken_header(behind, scan)))
    _name_damage(scan, gaps)
    return scan


def _mark(header: GroupHeader) -> int:
    return header.synced_length if header.synced_segment == header.segment else 0


def _find_groups(data: bytes, scan: SegmentScan) -> list[tuple[int, int]]:
    """Collect the groups of the segment's present life in order; returns the unreadable gaps between them."""
    gaps: list[tuple[int, int]] = []
    position, number = 0, 0
    while True:
        group = _group_at(data, position, scan, number)
        if group is None:
            following = _next_group(data, position + 1, scan, number)
            if following is None:
                return gaps
            gaps.append((position, following.position))
            group = following
        scan.groups.append(group)
        position, number = group.end, group.header.number + 1


def _own_header(view: memoryview, scan: SegmentScan) -> GroupHeader | None:
    header = decode_header(view)
    if header is None or (header.life, header.epoch, header.segment) != (scan.life, scan.epoch, scan.segment):
        return None
    return header


def _is_broken_header(view: memoryview, scan: SegmentScan) -> bool:
    """True if there is a partial header. Headers left behind the end by an earlier life are whole."""
    mark = header_mark(scan.life, scan.epoch, scan.segment)
    begun = bytes(view[: len(MAGIC)]) == MAGIC or bytes(view[MARK_AT : MARK_AT + len(mark)]) == mark
    return begun and decode_header(view) is None


def _group_at(data: bytes, position: int, scan: SegmentScan, at_least: int) -> FoundGroup | None:
    view = memoryview(data)[position:]
    header = _own_header(view, scan)
    if header is None or header.number < at_least:
        return None
    directory = decode_directory(header, view)
    if directory is None:
        return None
    return FoundGroup(header, position, directory.previous, find_frames(view, position, header, directory))


def _next_group(data: bytes, start: int, scan: SegmentScan, at_least: int) -> FoundGroup | None:
    """Find the next group by its secret mark, so that no producer's data can slow the search down."""
    mark = header_mark(scan.life, scan.epoch, scan.segment)
    at = data.find(mark, start + MARK_AT)
    while at >= 0:
        group = _group_at(data, at - MARK_AT, scan, at_least)
        if group is not None:
            return group
        at = data.find(mark, at + 1)
    return None


def find_frames(view: memoryview, position: int, header: GroupHeader, directory: Directory) -> list[FoundFrame]:
    found: list[FoundFrame] = []
    at = HEADER_SIZE + header.directory_length
    for frame in directory.frames:
        payload = view[at : at + frame.length]
        sound = len(payload) == frame.length and checksum(payload) == frame.crc
        found.append(FoundFrame(frame, Place(header.epoch, header.segment, position + at, frame.length), sound))
        at += frame.length
    return found


def _name_damage(scan: SegmentScan, gaps: Sequence[tuple[int, int]]) -> None:
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
    if scan.end > scan.groups_end:
        scan.damage.append(f"bytes {scan.groups_end} to {scan.end} cannot be read")


@dataclass(frozen=True, slots=True)
class Lost:
    """Assigned offsets whose records cannot be read any more."""

    note: RangeNote
    why: str


def find_lost(scans: Sequence[SegmentScan]) -> tuple[list[Lost], list[str]]:
    """The lost ranges of one epoch's segments, in order, and a list of groups lost without a trace.

    The ranges of an unreadable group are in the note of the next group. If that one is lost, too, the offsets assigned
    are unknown, and continuing would assign them again. Missing segments were released: all of their frames are in the
    tables.
    """
    lost: list[Lost] = []
    untraceable: list[str] = []
    expected: int | None = 0
    unread: SegmentScan | None = None
    for place, scan in enumerate(scans):
        if scan.segment != (scans[place - 1].segment + 1 if place else 0):
            untraceable += [_end_of(unread)] if unread is not None else []
            expected, unread = None, None
        for group in scan.groups:
            number = group.header.number
            begin = number - group.header.index if expected is None else expected
            if expected is None and unread is not None:
                untraceable.append(_end_of(unread))
            elif number > begin + 1:
                untraceable.append(f"journal groups {begin} to {number - 2}")
            if number > begin or (expected is None and unread is not None):
                lost += [Lost(note, "its group cannot be read") for note in group.previous]
            expected, unread = number + 1, None
            lost += [Lost(note, "its payload fails its checksum") for note in _unsound(group)]
        if scan.end > scan.groups_end:
            unread = scan
    return lost, untraceable + ([_end_of(unread)] if unread is not None else [])


def _end_of(scan: SegmentScan) -> str:
    return f"the end of journal segment {scan.epoch}-{scan.segment} from byte {scan.groups_end}"


def _unsound(group: FoundGroup) -> list[RangeNote]:
    return notes_of([found.frame for found in group.frames if not found.sound])
