"""The report of a backup: the content of the copy by table and offset, and what is missing. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from delta_log.delta.conflicts import TOPIC_ID
from delta_log.delta.topic_commits import DELETED, PARTITIONS
from delta_log.operations.backup.point_in_time import Cut, TableCut
from delta_log.operations.check.journal_vs_table import check_connection
from delta_log.operations.check.read_journal import JournalLook

#: Maximum of tables with a line in the printed report.
_NAMED: Final = 20


class FileToCopy(NamedTuple):
    """A data file, by its path below the root."""

    table: str
    path: str
    size: int


class BackupProgress(NamedTuple):
    """The progress of a backup: the present file, the files and bytes before it, and the totals known so far."""

    path: str
    files: int
    all_files: int
    size: int
    all_bytes: int


@dataclass(frozen=True, slots=True)
class TableCopy:
    """A table as it is in the copy.

    `ends` are the end offsets of the partitions, `journaled` the number of rows that only the journal had; `copied` and
    `size` count the files that were not in the copy yet.
    """

    name: str
    version: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    journaled: int
    files: int
    copied: int
    size: int
    deleted: bool

    def __str__(self) -> str:
        ranges = ", ".join(
            f"{index}: {start} to {end}" for index, (start, end) in enumerate(zip(self.starts, self.ends, strict=True))
        )
        what = "deleted" if self.deleted else f"offsets by partition, ends exclusive: {ranges}"
        return (
            f"{self.name}: version {self.version}, {self.journaled} rows from the journal, "
            f"{self.copied} of {self.files} files copied ({self.size} bytes); {what}"
        )


@dataclass(frozen=True, slots=True)
class BackupReport:
    """The result or the plan of a backup; `str` is the text to print.

    `left_out` are tables that are not in the copy, with the reasons; `missing` are data files that the original lost,
    so that the copy lacks them, too; `damage` is unreadable parts of the journal, and files that are damaged in the
    original and so in the copy.
    """

    location: str
    target: str
    tables: tuple[TableCopy, ...]
    left_out: tuple[tuple[str, str], ...]
    missing: tuple[str, ...]
    damage: tuple[str, ...]
    dry_run: bool

    @property
    def complete(self) -> bool:
        return not (self.left_out or self.missing or self.damage)

    @property
    def exit_code(self) -> int:
        return 0 if self.complete else 1

    @property
    def summary(self) -> str:
        files, size = sum(table.copied for table in self.tables), sum(table.size for table in self.tables)
        would = "would be copied" if self.dry_run else "copied"
        return f"{self.location} {would} to {self.target}: {len(self.tables)} tables, {files} files, {size} bytes"

    def __str__(self) -> str:
        """The text to print: a line for each of the tables with most copied bytes, and for each missing item."""
        most = sorted(self.tables, key=lambda table: table.size, reverse=True)[:_NAMED]
        lines = [str(table) for table in self.tables if table in most]
        lines += [f"and {len(self.tables) - _NAMED} tables more"] if len(self.tables) > _NAMED else []
        lines += [f"not in it: {name}: {why}" for name, why in self.left_out]
        lines += [f"not in it: {path}: it is missing" for path in self.missing]
        lines += [f"not in it: {what}" for what in self.damage]
        return "\n".join([*lines, self.summary])


def expected_ends(table: TableCut, journal: JournalLook) -> tuple[int, ...]:
    """End offset of each partition after a replay of the journal, including offsets whose records are unreadable."""
    properties = table.state.configuration
    ends = [table.state.end(index) for index in range(int(properties[PARTITIONS]))]
    frames = [each.frame for each in journal.of(table.name, properties[TOPIC_ID])]
    given = [(each.partition, each.next_offset) for each in frames if each.count and each.epoch == table.state.epoch]
    notes = [lost.note for lost in journal.found.lost if lost.note.topic_id == properties[TOPIC_ID]]
    for partition, end in [*given, *((note.partition, note.base_offset + note.count) for note in notes)]:
        if partition < len(ends):
            ends[partition] = max(ends[partition], end)
    return tuple(ends)


def misfits(cut: Cut) -> list[str]:
    """Records of the journal that no start would replay, neither in the original nor in the copy."""
    found: list[str] = []
    for table in cut.tables:
        properties = table.state.configuration
        frames = [each.frame for each in cut.journal.of(table.name, properties[TOPIC_ID]) if each.frame.count]
        lost = [(n.partition, n.base_offset, n.count) for n in (each.note for each in cut.journal.found.lost)]
        if DELETED not in properties:
            partitions = int(properties[PARTITIONS])
            apart = check_connection(frames, table.state, partitions, table.name, lost)
            found += [f"{finding.place}: {finding.what}" for finding in apart]
    return found


def table_copy(table: TableCut, journal: JournalLook, copied: Sequence[FileToCopy]) -> TableCopy:
    own = [file for file in copied if file.table == table.name]
    ends = expected_ends(table, journal)
    starts = tuple(table.state.start(index) for index in range(len(ends)))
    tabled = [table.state.end(index) for index in range(len(ends))]
    return TableCopy(
        table.name,
        table.state.version,
        starts,
        ends,
        sum(end - before for end, before in zip(ends, tabled, strict=True)),
        table.state.file_count,
        len(own),
        sum(file.size for file in own),
        DELETED in table.state.configuration,
    )
