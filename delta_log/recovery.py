"""Start: what the journal holds and the tables do not yet.

frame below the table's end               it is in the table: skip
topic id of an earlier life               the topic was deleted: drop
another epoch than the table's            not of this table's history: set aside, named
a payload that cannot be read             its offsets become a hole, named
else                                      live again, at its offsets
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from delta_log.errors import Corruption, LakelogError
from delta_log.frames import DECISION, Frame, Place, RangeNote
from delta_log.journal import Journal, Recovered
from delta_log.journal_scan import FoundFrame
from delta_log.live import PRODUCERS_TABLE, Live, PendingGroup
from delta_log.tail import ROW_OVERHEAD, Chunk, Tail
from delta_log.writer import Writer

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Report:
    """What a start found and did, for its one line in the log."""

    segments: int = 0
    size: int = 0
    records: int = 0
    topics: set[str] = field(default_factory=set[str])
    tabled: int = 0
    dropped: int = 0
    aside: list[str] = field(default_factory=list[str])
    lost: list[str] = field(default_factory=list[str])
    torn: list[str] = field(default_factory=list[str])
    damage: list[str] = field(default_factory=list[str])
    closed: dict[str, LakelogError] = field(default_factory=dict[str, LakelogError])
    decisions: list[tuple[str, str, dict[str, object]]] = field(
        default_factory=list[tuple[str, str, dict[str, object]]]
    )

    def __str__(self) -> str:
        text = (
            f"journal: {self.segments} segments, {self.size} bytes; {self.records} records of "
            f"{len(self.topics)} topics were not in their tables yet, {self.tabled} were"
        )
        for what, found in (
            ("torn end cut off", self.torn),
            ("DAMAGE", self.damage),
            ("LOST", self.lost),
            ("set aside", self.aside),
            ("closed", sorted(self.closed)),
        ):
            if found:
                text += f"; {what}: {', '.join(found)}"
        return text + (f"; {self.dropped} records of deleted topics dropped" if self.dropped else "")


OpenTopic = Callable[[str], Live | None]


def recover(journal: Journal, writer: Writer, open_topic: OpenTopic) -> Report:
    """Replay the journal into the live tables. `open_topic` answers None where there is no such table."""
    found = journal.recover()
    if found.untraceable:
        raise Corruption(
            "the journal",
            f"{', '.join(found.untraceable)} cannot be read and nothing says which offsets they gave out "
            f"({'; '.join(found.damage)})",
        )
    report = Report(found.segments, found.size, torn=found.torn, damage=found.damage)
    lives = _open_lives(found, open_topic, report)
    pinned = Tail(0, 0)
    group: dict[str, PendingGroup] = {}
    place: Place | None = None
    for item in found.frames:
        frame = item.frame
        if place is not None and _group_key(item.place) != _group_key(place):
            _close_group(writer, lives, group)
        place = item.place
        segment = (item.place.epoch, item.place.segment)
        if frame.kind == DECISION:
            _note_decision(report, frame, journal.read(item.place))
            continue
        if frame.topic in report.closed:
            writer.segments.setdefault(segment, {})[pinned] = 1
            continue
        live = lives.get(frame.topic)
        chunk = _replay(live, item, report) if live is not None else None
        if live is None:
            _set_aside(writer, report, item, "there is no such table")
        elif isinstance(chunk, str):
            _set_aside(writer, report, item, chunk)
        elif chunk is not None:
            owner = group.setdefault(live.name, PendingGroup([]))
            owner.chunks.append((frame.partition, chunk))
            owner.size += chunk.size
            writer.segments.setdefault(segment, {})[live.tails[frame.partition]] = chunk.next_offset
    _close_group(writer, lives, group)
    for lost in found.lost:
        _keep_lost_offsets(writer, lives, report, lost.note, lost.why)
    return report


def _open_lives(found: Recovered, open_topic: OpenTopic, report: Report) -> dict[str, Live]:
    names = {item.frame.topic for item in found.frames if item.frame.kind != DECISION}
    names |= {lost.note.topic for lost in found.lost}
    lives: dict[str, Live] = {}
    for name in sorted(names):
        try:
            live = open_topic(name)
        except LakelogError as error:
            report.closed[name] = error
            _log.error("topic %s is closed: %s", name, error)
            continue
        if live is not None:
            lives[name] = live
    return lives


def _group_key(place: Place) -> tuple[int, int]:
    return place.epoch, place.segment


def _replay(live: Live, item: FoundFrame, report: Report) -> Chunk | str | None:
    """The chunk that becomes live again; why it must not; or None when there is nothing to do."""
    frame = item.frame
    if frame.topic_id != live.id:
        report.dropped += frame.count
        return None
    if frame.partition >= live.partitions:
        return f"partition {frame.partition} is unknown to its table"
    tail = live.tails[frame.partition]
    if frame.next_offset <= tail.next:
        report.tabled += frame.count
        return None
    if frame.epoch != live.table.snapshot.epoch:
        return f"it was written in epoch {frame.epoch}, its table is in {live.table.snapshot.epoch}"
    if frame.base_offset < tail.next:
        return f"its table ends inside it, at {tail.next}"
    if frame.base_offset > tail.next:
        report.lost.append(f"{live.name}-{frame.partition} {tail.next} to {frame.base_offset - 1}")
    chunk = Chunk(
        frame.base_offset,
        frame.count,
        frame.length + ROW_OVERHEAD * frame.count,
        frame,
        item.place,
        lost=not item.sound,
    )
    if not item.sound:
        report.lost.append(f"{live.name}-{frame.partition} {frame.base_offset} to {frame.next_offset - 1}")
    _show(tail, chunk)
    if live.name != PRODUCERS_TABLE:
        report.records += frame.count
        report.topics.add(live.name)
    return chunk


def _show(tail: Tail, chunk: Chunk) -> None:
    tail.add(chunk)
    tail.next = tail.end = chunk.next_offset


def _keep_lost_offsets(writer: Writer, lives: dict[str, Live], report: Report, note: RangeNote, why: str) -> None:
    """Offsets at the very end that were given out but cannot be read any more are never given out again."""
    live = lives.get(note.topic)
    end = note.base_offset + note.count
    if live is None or note.topic_id != live.id or note.partition >= live.partitions:
        return
    tail = live.tails[note.partition]
    if end <= tail.next:
        return
    report.lost.append(f"{live.name}-{note.partition} {tail.next} to {end - 1} ({why})")
    frame = Frame(0, live.name, live.id, note.partition, tail.next, end - tail.next, writer.epoch, 0, 0, 0)
    chunk = Chunk(tail.next, end - tail.next, 0, frame, Place(writer.epoch, -1, end, 0), lost=True)
    _show(tail, chunk)
    live.add_pending(PendingGroup([(note.partition, chunk)]))
    live.recovered_left += 1


def _close_group(writer: Writer, lives: dict[str, Live], group: dict[str, PendingGroup]) -> None:
    for name, pending in group.items():
        live = lives[name]
        live.add_pending(pending)
        live.recovered_left += 1
        writer.untabled += pending.size
    group.clear()


def _set_aside(writer: Writer, report: Report, item: FoundFrame, why: str) -> None:
    frame = item.frame
    writer.aside.add((item.place.epoch, item.place.segment))
    report.aside.append(f"{frame.topic}-{frame.partition} {frame.base_offset} to {frame.next_offset - 1} ({why})")


def _note_decision(report: Report, frame: Frame, payload: bytes) -> None:
    report.decisions.append((frame.topic, frame.topic_id, msgspec.msgpack.decode(payload)))
