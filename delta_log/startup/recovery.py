"""Recovery at start: replays the records that the journal has and the tables do not have yet.

frame below the table's end               it is in the table: skip
topic id of a deleted topic               drop; also if its table is marked deleted
another epoch than the table's            not of this table's history: set aside, reported
a payload that cannot be read             its offsets become a hole, reported
neighbours that cannot be read            offsets they may have assigned: a hole, reported; their segment is kept
else                                      live again, at its offsets
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from delta_log.append.group_commit import Writer
from delta_log.journal import Journal, Recovered
from delta_log.journal.group_format import Frame, Place
from delta_log.journal.segment_scan import FoundFrame, Lost
from delta_log.journal.unreadable_groups import TableEnds, lost_of, plan_doubts
from delta_log.model.errors import LakelogError
from delta_log.records.payload_kinds import DECISION
from delta_log.topics.partition_state import Chunk, PartitionState, row_bytes
from delta_log.topics.topic_state import PendingGroup, TopicState

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Report:
    """The result of a recovery, for the log line of a start."""

    segments: int = 0
    size: int = 0
    records: int = 0
    topics: set[str] = field(default_factory=set[str])
    #: the topics, and the internal tables
    tables: set[str] = field(default_factory=set[str])
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


OpenTopic = Callable[[str], TopicState | None]


def replay(
    found: Recovered, journal: Journal, writer: Writer, open_topic: OpenTopic, all_tables: Callable[[], Sequence[str]]
) -> Report:
    """Make live the records that the tables lack. `open_topic` returns None if there is no such table.

    Tables must be opened after the journal was read: what it no longer had by then is in them. `all_tables` lists them
    all, for unreadable groups whose tables are unknown.
    """
    report = Report(found.segments, found.size, torn=found.torn, damage=[*found.damage, *found.untraceable])
    lives: dict[str, TopicState] = {}
    for name, items in _by_topic(found).items():
        live = _open(name, open_topic, report)
        if live is not None:
            lives[name] = live
            _replay_topic(writer, live, [item for item in items if item.frame.kind != DECISION], report)
            _note_decisions(journal, writer, live, items, report)
        elif name in report.closed:
            _pin(writer, items)
        else:
            for item in items:
                if item.frame.kind != DECISION:
                    _set_aside(writer, report, item, "there is no such table")
    if found.untraceable:
        for name in all_tables():
            if name not in lives and name not in report.closed:
                live = _open(name, open_topic, report)
                lives |= {} if live is None else {name: live}
        _keep_unread(journal, writer, found, report)
        doubts = plan_doubts(found.frames, found.unread, [_ends(live) for live in lives.values()])
        found.lost += lost_of(doubts)
    for lost in found.lost:
        _keep_lost_offsets(journal, writer, lives, report, lost)
    return report


def _ends(live: TopicState) -> TableEnds:
    snapshot = live.table.snapshot
    ends = () if live.deleted else tuple(snapshot.end(index) for index in range(live.partitions))
    return TableEnds(live.name, live.id, snapshot.epoch, ends)


def _keep_unread(journal: Journal, writer: Writer, found: Recovered, report: Report) -> None:
    """Keep the segments of unreadable groups for a later repair.

    While a table is closed, the whole journal stays: only the journal tells which offsets the table may have assigned,
    once it is repaired.
    """
    segments = sorted({segment for unread in found.unread for segment in unread.segments})
    writer.aside.update(segments)
    report.aside += [f"journal segment {epoch}-{number} (groups of it cannot be read)" for epoch, number in segments]
    never = PartitionState(0, 0)
    for segment in journal.segments() if report.closed else ():
        writer.segments.setdefault(segment, {})[never] = 1


def _by_topic(found: Recovered) -> dict[str, list[FoundFrame]]:
    """The frames and decisions of each topic in the order in which they were written."""
    topics: dict[str, list[FoundFrame]] = {lost.note.topic: [] for lost in found.lost}
    for item in found.frames:
        topics.setdefault(item.frame.topic, []).append(item)
    return topics


def _note_decisions(
    journal: Journal, writer: Writer, live: TopicState, items: Sequence[FoundFrame], report: Report
) -> None:
    """Report the decisions. Each keeps its segment until it is carried out."""
    for item in items:
        if item.frame.kind == DECISION and item.sound:
            if item.frame.topic_id == live.id:
                live.decision.log_end_offset += 1
                writer.segments.setdefault(_segment(item.place), {})[live.decision] = live.decision.log_end_offset
            decision = msgspec.msgpack.decode(journal.read(item.place))
            report.decisions.append((item.frame.topic, item.frame.topic_id, decision))


def _open(name: str, open_topic: OpenTopic, report: Report) -> TopicState | None:
    """Open a table named in the journal, and make its log durable: the journal will release what the table has."""
    try:
        live = open_topic(name)
        if live is not None:
            live.table.store.settle(live.table.path("_delta_log"))
        return live
    except LakelogError as error:
        report.closed[name] = error
        _log.error("topic %s is closed: %s", name, error)
        return None


def _pin(writer: Writer, items: Sequence[FoundFrame]) -> None:
    """Keep a closed topic's records in the journal until the topic is repaired."""
    never = PartitionState(0, 0)
    for item in items:
        writer.segments.setdefault(_segment(item.place), {})[never] = 1


def _replay_topic(writer: Writer, live: TopicState, items: list[FoundFrame], report: Report) -> None:
    """Make frames live again, a group for each segment, so that one unit reaches its table in one commit.

    Frames that were copied forward lie behind later ones: then all are sorted, and are one group. Of two copies the
    last is taken, because a former owner that made it may still release the others; but a sound copy is preferred.
    """
    in_order = _is_in_order(items)
    if not in_order:
        items.reverse()
        items.sort(key=lambda item: (item.frame.base_offset, not item.sound))
    group, segment = PendingGroup([]), (-1, -1)
    for item in items:
        if in_order and _segment(item.place) != segment:
            _add_group(writer, live, group)
            group, segment = PendingGroup([]), _segment(item.place)
        outcome = _replay(live, item, report)
        if isinstance(outcome, str):
            _set_aside(writer, report, item, outcome)
        elif outcome is not None:
            index = item.frame.partition
            group.chunks.append((index, outcome))
            group.size += outcome.size
            writer.segments.setdefault(_segment(item.place), {})[live.tails[index]] = outcome.next_offset
    _add_group(writer, live, group)


def _is_in_order(items: Sequence[FoundFrame]) -> bool:
    last: dict[tuple[str, int], int] = {}
    for item in items:
        key = (item.frame.topic_id, item.frame.partition)
        if item.frame.base_offset <= last.get(key, -1):
            return False
        last[key] = item.frame.base_offset
    return True


def _add_group(writer: Writer, live: TopicState, group: PendingGroup) -> None:
    if group.chunks:
        writer.untabled += live.add_pending(group)
        live.recovered_left += 1


def _segment(place: Place) -> tuple[int, int]:
    return place.epoch, place.segment


def _replay(live: TopicState, item: FoundFrame, report: Report) -> Chunk | str | None:
    """Replay a frame: returns the chunk that is live again, the reason to set it aside, or None if nothing is to do."""
    frame = item.frame
    if frame.topic_id != live.id or live.deleted:
        report.dropped += frame.count
        return None
    if frame.partition >= live.partitions:
        return f"partition {frame.partition} is unknown to its table"
    tail = live.tails[frame.partition]
    if frame.next_offset <= tail.log_end_offset:
        report.tabled += frame.count
        return None
    if frame.epoch != live.table.snapshot.epoch:
        return f"it was written in epoch {frame.epoch}, its table is in {live.table.snapshot.epoch}"
    if frame.base_offset < tail.log_end_offset:
        return f"its table ends inside it, at {tail.log_end_offset}"
    if frame.base_offset > tail.log_end_offset:
        report.lost.append(f"{live.name}-{frame.partition} {tail.log_end_offset} to {frame.base_offset - 1}")
    chunk = Chunk(
        frame.base_offset,
        frame.count,
        row_bytes(frame),
        frame,
        item.place,
        lost=not item.sound,
    )
    if not item.sound:
        report.lost.append(f"{live.name}-{frame.partition} {frame.base_offset} to {frame.next_offset - 1}")
    _show(tail, chunk)
    report.tables.add(live.name)
    if not live.internal:
        report.records += frame.count
        report.topics.add(live.name)
    return chunk


def _show(tail: PartitionState, chunk: Chunk) -> None:
    tail.add(chunk)
    tail.log_end_offset = tail.high_watermark = chunk.next_offset


def _keep_lost_offsets(
    journal: Journal, writer: Writer, lives: dict[str, TopicState], report: Report, lost: Lost
) -> None:
    """Turn unreadable offsets at the end into a hole, so that they are never assigned again.

    The whole journal stays until the table has the hole: the evidence of them is spread over several segments.
    """
    note = lost.note
    live = lives.get(note.topic)
    end = note.base_offset + note.count
    if live is None or note.topic_id != live.id or live.deleted or note.partition >= live.partitions:
        return
    tail = live.tails[note.partition]
    if end <= tail.log_end_offset:
        return
    report.lost.append(f"{live.name}-{note.partition} {tail.log_end_offset} to {end - 1} ({lost.why})")
    frame = Frame(
        0, live.name, live.id, note.partition, tail.log_end_offset, end - tail.log_end_offset, writer.epoch, 0, 0, 0
    )
    chunk = Chunk(
        tail.log_end_offset,
        end - tail.log_end_offset,
        0,
        frame,
        Place(writer.epoch, -1 - note.partition, end, 0),
        lost=True,
    )
    _show(tail, chunk)
    for segment in journal.segments():
        writer.segments.setdefault(segment, {})[tail] = chunk.next_offset
    _add_group(writer, live, PendingGroup([(note.partition, chunk)]))


def _set_aside(writer: Writer, report: Report, item: FoundFrame, why: str) -> None:
    frame = item.frame
    writer.aside.add(_segment(item.place))
    report.aside.append(f"{frame.topic}-{frame.partition} {frame.base_offset} to {frame.next_offset - 1} ({why})")
