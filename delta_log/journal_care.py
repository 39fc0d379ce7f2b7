"""Keeping the journal short.

A segment goes when the tables have all of it. A table that is stuck does not hold the others' segments back: its few
live frames are copied forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from delta_log.journal import Journal
from delta_log.live import Live
from delta_log.tail import Chunk, Tail
from delta_log.writer import Writer

#: So many closed segments may wait before the oldest one is looked at.
KEPT_SEGMENTS: Final = 32
#: More than this is not copied: then it is no leftover but a backlog.
MOST_COPIED_BYTES: Final = 4 * 1024 * 1024

Held = tuple[Live, int, Chunk]


def release_journal(journal: Journal, writer: Writer) -> None:
    """Let go of closed segments whose every frame is in its table."""
    for segment in journal.segments():
        marks = writer.segments.get(segment, {})
        if all(tail.tabled >= end for tail, end in list(marks.items())):
            writer.segments.pop(segment, None)
            journal.release(segment, aside=segment in writer.aside)


def copy_forward(journal: Journal, writer: Writer, lives: Sequence[Live], *, kept_segments: int = KEPT_SEGMENTS) -> int:
    """Free the oldest segment when too many are held; returns how many frames were journaled again.

    A copied frame keeps its offsets and its epoch, so a start that finds both copies skips the second.
    """
    segments = journal.segments()
    if len(segments) <= kept_segments:
        return 0
    oldest = segments[0]
    with ExitStack() as stack:
        held = _held_in(oldest, lives)
        for live in {id(live): live for live, _, _ in held}.values():
            stack.enter_context(live.committing)
        held = _held_in(oldest, lives)
        tails = {live.tails[index] for live, index, _ in held}
        if not _may_copy(writer.segments.get(oldest, {}), held, tails):
            return 0
        writer.alone(lambda: _journal_again(journal, writer, held))
    writer.segments.pop(oldest, None)
    release_journal(journal, writer)
    return len(held)


def _held_in(segment: tuple[int, int], lives: Sequence[Live]) -> list[Held]:
    found: list[Held] = []
    for live in lives:
        with live.lock:
            for group in live.pending:
                found += [
                    (live, index, chunk)
                    for index, chunk in group.chunks
                    if (chunk.place.epoch, chunk.place.segment) == segment and not chunk.lost
                ]
    return found


def _may_copy(marks: dict[Tail, int], held: Sequence[Held], tails: set[Tail]) -> bool:
    """Whether the segment is held by these frames alone, and they are few."""
    others = [tail for tail, end in marks.items() if tail.tabled < end and tail not in tails]
    in_doubt = any(live.in_doubt for live, _, _ in held)
    size = sum(chunk.place.length for _, _, chunk in held)
    return bool(held) and not others and not in_doubt and size <= MOST_COPIED_BYTES


def _journal_again(journal: Journal, writer: Writer, held: Sequence[Held]) -> None:
    payloads = [journal.read(chunk.place) for _, _, chunk in held]
    places = writer.write_journal([chunk.frame for _, _, chunk in held], payloads, 0)
    for (live, index, chunk), place in zip(held, places, strict=True):
        chunk.place = place
        marks = writer.segments.setdefault((place.epoch, place.segment), {})
        tail = live.tails[index]
        marks[tail] = max(marks.get(tail, 0), chunk.next_offset)
