"""Damaged or missing data files: the rows still readable, the rows in the journal, and the offsets to give up.

A file is restored if the journal has every missing row of it. Offsets that nothing has any more may be given up,
explicitly, and only as a whole range: never an offset that can still be read, nor a part of an unreadable range.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from delta_log.delta.parquet import OpenFile, time_bounds
from delta_log.journal.segment_scan import FoundFrame
from delta_log.model.errors import Corruption, InvalidRequest, LakelogError
from delta_log.model.lost_ranges import LostRange, merge_ranges, read_lost, subtract
from delta_log.model.types import DataFile
from delta_log.operations.check.journal_vs_table import journaled_rows
from delta_log.operations.repair.actions import GiveUp
from delta_log.topics.partition_state import PayloadReader
from delta_log.topics.topic_state import TopicState

_EVERYTHING: Final = 1 << 62


@dataclass(slots=True)
class Survey:
    """The state of one file: the rows that it or the journal has, and the ranges of offsets that neither has any more.

    `damaged`: the file alone does not have all rows.
    """

    file: DataFile
    readable: list[pa.Table] = field(default_factory=list[pa.Table])
    unreadable: list[LostRange] = field(default_factory=list[LostRange])
    damaged: bool = False

    def rows(self, order: str) -> pa.Table | None:
        """The readable rows, in order."""
        return pa.concat_tables(self.readable).sort_by(order).combine_chunks() if self.readable else None


def survey_file(live: TopicState, file: DataFile, found: Sequence[FoundFrame], journal: PayloadReader) -> Survey:
    """Read each row group separately, and take unreadable rows from the journal."""
    survey = _survey_groups(live, file)
    if not survey.unreadable:
        return survey
    survey.damaged = True
    left: list[LostRange] = []
    for lost in survey.unreadable:
        frames = _near(found, lost.partition, lost.first, lost.last)
        rows = _journaled(live, frames, journal, lost) if frames else None
        if rows is None or not rows.num_rows:
            left.append(lost)
            continue
        survey.readable.append(rows)
        left += subtract(
            lost, [LostRange(lost.partition, f.frame.base_offset, f.frame.next_offset - 1) for f in frames]
        )
    survey.unreadable = left
    return survey


def restored_rows(
    live: TopicState, file: DataFile, found: Sequence[FoundFrame], journal: PayloadReader
) -> pa.Table | None:
    """The rows of a damaged file; None unless they are complete and match the table's record of the file."""
    survey = survey_file(live, file, found, journal)
    rows = survey.rows(live.rows.order)
    if not survey.damaged or survey.unreadable or rows is None:
        return None
    places = rows.column(live.rows.order)
    told = (file.count, file.base_offset, file.last_offset)
    if (rows.num_rows, places[0].as_py(), places[-1].as_py()) != told:
        return None
    if file.partition >= 0 and time_bounds(rows) != (file.min_timestamp_ms, file.max_timestamp_ms):
        return None
    return rows


def absent_ranges(live: TopicState, survey: Survey) -> list[LostRange]:
    """Offsets within a topic's file that it never had; none where key compaction may have removed them."""
    file = survey.file
    if live.internal or file.base_offset < live.table.snapshot.clean(file.partition):
        return []
    rows = survey.rows(live.rows.order)
    there: list[int] = [] if rows is None else rows.column(live.rows.order).to_pylist()
    known = [LostRange(file.partition, place, place) for place in there]
    return subtract(LostRange(file.partition, file.base_offset, file.last_offset), [*known, *survey.unreadable])


def _survey_groups(live: TopicState, file: DataFile) -> Survey:
    survey, partition = Survey(file), max(file.partition, 0)
    try:
        with closing(OpenFile(live.table.store, live.table.path(file.path))) as opened:
            for group in list(opened.row_groups(live.rows.order, -_EVERYTHING, _EVERYTHING)):
                try:
                    survey.readable.append(opened.read([group.number], live.rows.schema.names).cast(live.rows.schema))
                except (Corruption, pa.ArrowException):
                    first, last = max(group.first, file.base_offset), min(group.last, file.last_offset)
                    survey.unreadable.append(LostRange(partition, first, last))
    except (FileNotFoundError, Corruption):
        return Survey(file, unreadable=[LostRange(partition, file.base_offset, file.last_offset)])
    return survey


def _near(found: Sequence[FoundFrame], partition: int, first: int, last: int) -> list[FoundFrame]:
    """Sound frames that have any of these offsets."""
    return [
        each
        for each in found
        if each.sound
        and each.frame.partition == partition
        and each.frame.base_offset <= last
        and each.frame.next_offset > first
    ]


def _journaled(
    live: TopicState, frames: Sequence[FoundFrame], journal: PayloadReader, lost: LostRange
) -> pa.Table | None:
    try:
        return journaled_rows(live, frames, journal, lost.first, lost.last)
    except LakelogError:
        return None


def plan_give_up(
    live: TopicState,
    wanted: LostRange,
    surveys: Sequence[Survey],
    restorable: Sequence[DataFile],
    journaled: Sequence[LostRange],
) -> GiveUp | None:
    """Plan the cure; None if all of it is given up already. InvalidRequest if a part can still be read. Pure.

    `surveys` are of the files with offsets of the range, `restorable` the ones that the journal can restore.
    """
    snapshot, name = live.table.snapshot, live.name
    if not 0 <= wanted.partition < live.partitions:
        raise InvalidRequest(f"{name} has no partition {wanted.partition}")
    end = snapshot.end(wanted.partition)
    if not 0 <= wanted.first <= wanted.last < end:
        raise InvalidRequest(
            f"{name}-{wanted.partition} {wanted.first} to {wanted.last} is no range below its end {end}"
        )
    if not subtract(wanted, read_lost(snapshot.configuration)):
        return None
    if restorable:
        raise InvalidRequest(f"{restorable[0].path} of {name} can be restored from the journal: repair does that first")
    for survey in surveys:
        _check_unreadable(live, wanted, survey)
    present = [LostRange(wanted.partition, s.file.base_offset, s.file.last_offset) for s in surveys]
    for missing in subtract(wanted, present):
        for known in journaled:
            if known.partition == wanted.partition and known.first <= missing.last and known.last >= missing.first:
                raise InvalidRequest(
                    f"the journal still has {known.first} to {known.last} of {name}-{wanted.partition}"
                )
    broken = tuple(survey.file for survey in surveys if survey.damaged)
    return GiveUp(name, live.table.directory, wanted, broken)


def unreadable_ranges(surveys: Sequence[Survey]) -> list[LostRange]:
    """The ranges that would have to be given up."""
    return merge_ranges(lost for survey in surveys for lost in survey.unreadable)


def _check_unreadable(live: TopicState, wanted: LostRange, survey: Survey) -> None:
    where = f"{live.name}-{wanted.partition}"
    for rows in survey.readable:
        places = rows.column(live.rows.order).to_pylist()
        within = [place for place in places if wanted.first <= place <= wanted.last]
        if within:
            raise InvalidRequest(f"{where} {within[0]} to {within[-1]} can still be read: it is not given up")
    for _, first, last in survey.unreadable:
        if first < wanted.first or last > wanted.last:
            raise InvalidRequest(f"{where} {first} to {last} is unreadable as a whole: give up all of it or nothing")
