"""Compares the journal with a table.

Rows that only the journal has must follow the table's end without a gap, and rows in both must be the same. A journal
that was read before the table may lack the newest rows; the rows that it has must match.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from delta_log.delta.parquet import read_file
from delta_log.delta.snapshot import Snapshot
from delta_log.journal.group_format import Frame
from delta_log.journal.segment_scan import FoundFrame
from delta_log.model.errors import LakelogError
from delta_log.model.schema import integer
from delta_log.model.types import DataFile
from delta_log.operations.check.findings import Finding, damage
from delta_log.records.payload_kinds import DECISION
from delta_log.topics.partition_state import Chunk, PayloadReader, row_bytes
from delta_log.topics.topic_state import TopicState


def check_connection(
    frames: Sequence[Frame], snapshot: Snapshot, partitions: int, name: str, lost: Sequence[tuple[int, int, int]] = ()
) -> list[Finding]:
    """Check that a start could replay the rows that are not in the table yet. Pure.

    `lost` are partitions, first offsets and counts of known unreadable rows, which are reported elsewhere.
    """
    found: list[Finding] = []
    for partition in sorted({frame.partition for frame in frames}):
        place = f"journal of {name}-{partition}"
        own = sorted((f for f in frames if f.partition == partition), key=lambda frame: frame.base_offset)
        if partition >= partitions:
            found.append(damage(place, "its table has no such partition"))
            continue
        end = at = snapshot.end(partition)
        known = {first + count for of, first, count in lost if of == partition}
        for frame in own:
            if frame.next_offset <= at:
                continue
            if frame.epoch != snapshot.epoch:
                why = f"offsets {frame.base_offset} to {frame.next_offset - 1} are of epoch {frame.epoch}"
                found.append(damage(place, f"{why}, the table is in {snapshot.epoch}: a start would set them aside"))
            elif frame.base_offset < end:
                found.append(
                    damage(place, f"the table ends at {end}, inside {frame.base_offset} to {frame.next_offset - 1}")
                )
            elif frame.base_offset > at and frame.base_offset not in known:
                found.append(damage(place, f"neither it nor the table has the offsets {at} to {frame.base_offset - 1}"))
            at = frame.next_offset
    return found


def check_agreement(
    live: TopicState, files: Sequence[DataFile], found: Sequence[FoundFrame], journal: PayloadReader
) -> list[Finding]:
    """Compare, file by file, the rows that are in both sound frames and the table."""
    findings: list[Finding] = []
    for file in files:
        both = journaled(file, found)
        if both:
            findings += _compare(live, file, both, journal)
    return findings


def journaled(file: DataFile, found: Sequence[FoundFrame]) -> list[FoundFrame]:
    """The sound frames with any of a file's rows."""
    partition = max(file.partition, 0)
    return [
        item
        for item in found
        if item.sound
        and item.frame.kind != DECISION
        and item.frame.partition == partition
        and item.frame.base_offset <= file.last_offset
        and item.frame.next_offset > file.base_offset
    ]


def journaled_rows(
    live: TopicState, found: Sequence[FoundFrame], journal: PayloadReader, first: int, last: int
) -> pa.Table:
    """The rows of sound frames from `first` to `last`, as their table would have them; each offset once."""
    chunks: list[Chunk] = []
    at = -1
    for item in sorted(found, key=lambda each: each.frame.base_offset):
        frame = item.frame
        if item.sound and frame.base_offset >= at:
            chunks.append(Chunk(frame.base_offset, frame.count, row_bytes(frame), frame, item.place))
            at = frame.next_offset
    table = pa.Table.from_batches(live.rows.batches(chunks, journal), schema=live.rows.schema)
    places = table.column(live.rows.order)
    return table.filter(pc.and_(pc.greater_equal(places, integer(first)), pc.less_equal(places, integer(last))))


def _compare(live: TopicState, file: DataFile, both: Sequence[FoundFrame], journal: PayloadReader) -> list[Finding]:
    path = live.table.path(file.path)
    try:
        stored = read_file(live.table.store, path, live.rows.schema)
        told = journaled_rows(live, both, journal, file.base_offset, file.last_offset)
    except (LakelogError, FileNotFoundError):
        return []
    order = live.rows.order
    stored, told = _common(stored, told, order), _common(told, stored, order)
    if stored.equals(told):
        return []
    apart = next(
        place.as_py()
        for number, place in enumerate(stored.column(order))
        if not stored.slice(number, 1).equals(told.slice(number, 1))
    )
    return [damage(path, f"the journal has another row at {order} {apart}")]


def _common(rows: pa.Table, others: pa.Table, order: str) -> pa.Table:
    """The rows whose offsets are in both tables."""
    places = others.column(order).combine_chunks()
    return rows.filter(pc.is_in(rows.column(order), options=pc.SetLookupOptions(value_set=places))).combine_chunks()
