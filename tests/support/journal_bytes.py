"""Journal segments built in memory, exactly as a journal would write them, for tests to cut and damage."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from delta_log.journal.group_format import (
    HEADER_SIZE,
    Frame,
    GroupHeader,
    RangeNote,
    checksum,
    encode_directory,
    encode_header,
    notes_of,
)
from delta_log.journal.segment_scan import SegmentScan, find_lost, scan_segment
from delta_log.records.payload_kinds import ROWS

LIFE, EPOCH = 0x0123456789ABCDEF, 7


@dataclass
class Group:
    """What one synced write holds."""

    frames: list[Frame]
    payloads: list[bytes]


@dataclass
class Built:
    """Segments, and where each group of each segment ends."""

    segments: list[bytes] = field(default_factory=list)
    ends: list[list[int]] = field(default_factory=list)


def make_frame(topic: str, partition: int, base: int, count: int, payload: bytes, *, epoch: int = EPOCH) -> Frame:
    return Frame(ROWS, topic, f"id-{topic}", partition, base, count, epoch, len(payload), checksum(payload), 1)


def make_group(start: int, *parts: tuple[str, int, bytes]) -> Group:
    """One frame of one record for each (topic, partition, payload); `start` is the first offset of all of them."""
    frames = [make_frame(topic, partition, start, 1, payload) for topic, partition, payload in parts]
    return Group(frames, [payload for _, _, payload in parts])


def build(segments: Sequence[Sequence[Group]], *, life: int = LIFE, epoch: int = EPOCH, first: int = 0) -> Built:
    """The bytes of consecutive segments; `first` is the number of the first one."""
    built = Built()
    previous: list[RangeNote] = []
    number, synced = 0, (first, 0)
    for segment, groups in enumerate(segments, first):
        data, ends = b"", []
        for index, group in enumerate(groups):
            directory = encode_directory(previous, group.frames)
            payload = b"".join(group.payloads)
            crc = checksum(directory)
            header = GroupHeader(life, epoch, segment, number, index, *synced, len(directory), crc, len(payload))
            data += encode_header(header) + directory + payload
            ends.append(len(data))
            number, synced, previous = number + 1, (segment, len(data)), notes_of(group.frames)
        built.segments.append(data)
        built.ends.append(ends)
    return built


def scan_all(segments: Sequence[bytes], *, first: int = 0, missing: frozenset[int] = frozenset()) -> list[SegmentScan]:
    """Scan as a recovery does: the last one first, so that each proves what lies before it."""
    scans: list[SegmentScan] = []
    marks: dict[int, int] = {}
    for number in reversed(range(first, first + len(segments))):
        if number in missing:
            continue
        scan = scan_segment(
            segments[number - first],
            life=LIFE,
            epoch=EPOCH,
            segment=number,
            closed=bool(scans),
            synced_length=marks.get(number, 0),
        )
        for group in scan.groups:
            header = group.header
            marks[header.synced_segment] = max(marks.get(header.synced_segment, 0), header.synced_length)
        scans.insert(0, scan)
    return scans


def read_back(scans: Sequence[SegmentScan], segments: Sequence[bytes], *, first: int = 0) -> list[tuple[Frame, bytes]]:
    """All sound frames with their payloads, in order."""
    return [
        (found.frame, segments[scan.segment - first][found.place.position :][: found.place.length])
        for scan in scans
        for group in scan.groups
        for found in group.frames
        if found.sound
    ]


def written(groups: Sequence[Group]) -> list[tuple[Frame, bytes]]:
    return [pair for group in groups for pair in zip(group.frames, group.payloads, strict=True)]


def lost_ranges(scans: Sequence[SegmentScan]) -> list[tuple[str, int, int, int]]:
    """Topic, partition, base offset and count of all that was lost; fails on what was lost without a trace."""
    lost, untraceable = find_lost(scans)
    assert untraceable == []
    return [(item.note.topic, item.note.partition, item.note.base_offset, item.note.count) for item in lost]


def ranges_of(group: Group) -> list[tuple[str, int, int, int]]:
    return [(frame.topic, frame.partition, frame.base_offset, frame.count) for frame in group.frames]


__all__ = [
    "EPOCH",
    "HEADER_SIZE",
    "LIFE",
    "Built",
    "Group",
    "build",
    "lost_ranges",
    "make_frame",
    "make_group",
    "ranges_of",
    "read_back",
    "scan_all",
    "written",
]
