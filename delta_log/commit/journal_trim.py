"""Trims the journal.

A segment is removed once the tables have all of it. A stuck table does not hold back segments of others: its few
live frames are copied forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from delta_log.append.group_commit import Writer
from delta_log.journal import Journal
from delta_log.topics.partition_state import Chunk, PartitionState
from delta_log.topics.topic_state import TopicState

#: Bound on the bytes copied forward: more than this is a backlog, not a remainder.
MOST_COPIED_BYTES: Final = 4 * 1024 * 1024

Held = tuple[TopicState, int, Chunk]


def release_journal(journal: Journal, writer: Writer) -> None:
    """Release closed segments of which every frame is in its table."""
    for segment in journal.segments():
        marks = writer.segments.get(segment, {})
        if all(tail.table_offset >= end for tail, end in list(marks.items())):
            writer.segments.pop(segment, None)
            journal.release(segment, aside=segment in writer.aside)


def copy_forward(
    journal: Journal, writer: Writer, lives: Sequence[TopicState], *, kept_segments: int | None = None
) -> int:
    """Free the oldest segments when too many are held; returns how many frames were journaled again.

    A copied frame keeps its offsets and its epoch, so a start that finds both copies takes the second: the first may be
    removed at any moment, even by a later owner.
    """
    segments = journal.segments()
    if len(segments) <= (journal.kept_segments if kept_segments is None else kept_segments):
        return 0
    oldest = segments[: journal.copied_segments]
    with ExitStack() as stack:
        for live in {id(live): live for live, _, _ in _held_in(oldest, lives)}.values():
            stack.enter_context(live.committing)
        copied, held = _choose(writer, oldest, _held_in(oldest, lives))
        if not held:
            return 0
        writer.alone(lambda: _journal_again(journal, writer, held))
    for segment in copied:
        writer.segments.pop(segment, None)
    release_journal(journal, writer)
    return len(held)


def _held_in(segments: Sequence[tuple[int, int]], lives: Sequence[TopicState]) -> list[Held]:
    wanted = set(segments)
    found: list[Held] = []
    for live in lives:
        with live.lock:
            for group in live.pending:
                found += [
                    (live, index, chunk)
                    for index, chunk in group.chunks
                    if (chunk.place.epoch, chunk.place.segment) in wanted and not chunk.lost
                ]
    return found


def _choose(
    writer: Writer, segments: Sequence[tuple[int, int]], held: Sequence[Held]
) -> tuple[list[tuple[int, int]], list[Held]]:
    """Choose the oldest segments that can be freed, and their frames, up to `MOST_COPIED_BYTES`."""
    of_segment: dict[tuple[int, int], list[Held]] = {}
    for each in held:
        of_segment.setdefault((each[2].place.epoch, each[2].place.segment), []).append(each)
    copied: list[tuple[int, int]] = []
    chosen: list[Held] = []
    left = MOST_COPIED_BYTES
    for segment in segments:
        its = of_segment.get(segment, [])
        size = sum(chunk.place.length for _, _, chunk in its)
        tails = {live.tails[index] for live, index, _ in its}
        if size <= left and _may_copy(writer.segments.get(segment, {}), its, tails):
            copied.append(segment)
            chosen += its
            left -= size
    return copied, chosen


def _may_copy(marks: dict[PartitionState, int], held: Sequence[Held], tails: set[PartitionState]) -> bool:
    """True if these frames alone hold the segment, and no commit of theirs is in doubt."""
    others = [tail for tail, end in marks.items() if tail.table_offset < end and tail not in tails]
    in_doubt = any(live.in_doubt for live, _, _ in held)
    return bool(held) and not others and not in_doubt


def _journal_again(journal: Journal, writer: Writer, held: Sequence[Held]) -> None:
    payloads = [journal.read(chunk.place) for _, _, chunk in held]
    places = writer.write_journal([chunk.frame for _, _, chunk in held], payloads, 0)
    for (live, index, chunk), place in zip(held, places, strict=True):
        chunk.place = place
        marks = writer.segments.setdefault((place.epoch, place.segment), {})
        tail = live.tails[index]
        marks[tail] = max(marks.get(tail, 0), chunk.next_offset)
