"""Reads the journal without owning the root, beside its owner or without one.

A segment that vanishes during the read was released: its rows are in the tables, or were copied to a newer segment. So
the read is repeated until nothing vanished: then it has all records that were acknowledged before it began and are in
no table when it ends. The newest segment may end in the middle of a write, which is not acknowledged yet.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from delta_log.journal import Recovered
from delta_log.journal.group_format import Place
from delta_log.journal.object_scan import collect, decode_object, number_of
from delta_log.journal.segment_scan import FoundFrame, SegmentScan, find_lost, scan_segment
from delta_log.journal.unreadable_groups import unread_of_objects, unread_of_segments
from delta_log.model.errors import StorageRefused
from delta_log.stores import Store

JOURNAL: Final = "journal"
SEGMENT: Final = re.compile(r"(\d{10})-(\d{10})-([0-9a-f]{16})\.seg")
_LOOKS: Final = 50


@dataclass(slots=True)
class JournalLook:
    """The content that a start would find, and segments set aside. Reads payloads like a journal."""

    found: Recovered = field(default_factory=Recovered)
    scans: list[SegmentScan] = field(default_factory=list[SegmentScan])
    asides: list[str] = field(default_factory=list[str])
    #: the position after everything that was read, in the order of journaling
    end: tuple[int, int, int] = (-1, -1, -1)
    _segments: dict[tuple[int, int], bytes] = field(default_factory=dict[tuple[int, int], bytes])

    def read(self, place: Place) -> bytes:
        data = self._segments.get((place.epoch, place.segment))
        if data is None:
            raise FileNotFoundError(f"journal segment {(place.epoch, place.segment)}")
        return data[place.position : place.position + place.length]

    def put(self, epoch: int, number: int, data: bytes, end: int) -> None:
        """Keep a segment up to its end."""
        self._segments[epoch, number] = data[:end]

    def segments(self) -> list[tuple[int, int]]:
        return sorted(self._segments)

    def of(self, topic: str, topic_id: str) -> list[FoundFrame]:
        """The frames of a topic, by name and topic id."""
        return [f for f in self.found.frames if (f.frame.topic, f.frame.topic_id) == (topic, topic_id)]


def load_journal(store: Store) -> JournalLook:
    """Read the journal consistently; StorageRefused if it changes faster than it can be read."""
    held: dict[str, bytes] = {}
    for _ in range(_LOOKS):
        names = _names(store)
        newest = max((name for name in names if SEGMENT.fullmatch(name)), default="")
        complete = True
        for name in names:
            if name not in held or name == newest:
                data = read_if_there(store, f"{JOURNAL}/{name}")
                complete = complete and data is not None
                held |= {name: data} if data is not None else {}
        there = set(_names(store))
        # A vanished segment may have become another one during the read; an object never changes.
        went = [name for name in names if name not in there and SEGMENT.fullmatch(name)]
        held = {name: data for name, data in held.items() if name not in went}
        if complete and not went:
            return look_into(held, [entry.name for entry in store.list(JOURNAL) if entry.name.startswith("aside-")])
    raise StorageRefused("a look at the journal", "it goes on faster than it can be read; try again")


def look_into(segments: dict[str, bytes], asides: Sequence[str] = ()) -> JournalLook:
    """Scan segments, given by name. Pure."""
    look = JournalLook(asides=sorted(asides))
    _look_into_objects(look, segments)
    named = sorted((match[1], match[2], match[3], data) for match, data in _matches(segments))
    for epoch in sorted({int(each[0]) for each in named}):
        scans: list[SegmentScan] = []
        marks: dict[int, int] = {}
        own = [(int(number), int(life, 16), data) for of, number, life, data in named if int(of) == epoch]
        for number, life, data in reversed(own):
            scan = scan_segment(
                data,
                life=life,
                epoch=epoch,
                segment=number,
                closed=number != own[-1][0],
                synced_length=marks.get(number, 0),
            )
            for group in scan.groups:
                header = group.header
                marks[header.synced_segment] = max(marks.get(header.synced_segment, 0), header.synced_length)
            look.put(epoch, number, data, scan.end)
            _tell(look.found, scan, f"{epoch:010d}-{number:010d}-{life:016x}.seg")
            scans.insert(0, scan)
        lost, untraceable = find_lost(scans)
        look.found.lost += lost
        look.found.untraceable += untraceable
        look.found.unread += unread_of_segments(scans, {number: len(data) for number, _, data in own})
        look.found.frames += [frame for scan in scans for group in scan.groups for frame in group.frames]
        look.scans += scans
        look.end = max([look.end, *((epoch, group.header.segment, group.end) for s in scans for group in s.groups)])
    return look


def _tell(found: Recovered, scan: SegmentScan, name: str) -> None:
    found.segments += 1
    found.size += scan.end
    found.damage += [f"{name}: {what}" for what in scan.damage]
    found.torn += [f"{name} from byte {scan.end}"] if scan.torn else []


def _matches(segments: dict[str, bytes]) -> list[tuple[re.Match[str], bytes]]:
    found = ((SEGMENT.fullmatch(name), data) for name, data in segments.items())
    return [(match, data) for match, data in found if match is not None]


def _names(store: Store) -> list[str]:
    names = (entry.name for entry in store.list(JOURNAL))
    return sorted(name for name in names if SEGMENT.fullmatch(name) or number_of(name) is not None)


def read_if_there(store: Store, path: str) -> bytes | None:
    try:
        return store.read(path)
    except FileNotFoundError:
        return None


def _look_into_objects(look: JournalLook, held: dict[str, bytes]) -> None:
    """Scan a journal of numbered objects, one group in each."""
    numbered = sorted(
        (number, data)
        for number, data in ((number_of(name), data) for name, data in held.items())
        if number is not None
    )
    objects = [decode_object(number, data) for number, data in numbered]
    content = collect(objects)
    found = look.found
    found.frames += content.frames
    found.lost += content.lost
    found.damage += content.damage
    found.untraceable += content.untraceable
    found.unread += unread_of_objects(objects, {number: len(data) for number, data in numbered})
    found.segments += sum(not each.is_fence for each in objects)
    found.size += sum(len(data) for _, data in numbered)
    for (number, data), each in zip(numbered, objects, strict=True):
        look.put(each.epoch, number, data, len(data))
        if each.readable:
            look.end = max(look.end, (each.epoch, number, len(data)))
