"""What is in a copy, table by table and offset by offset, and what is not. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from delta_log.delta.conflicts import TOPIC_ID
from delta_log.delta.topic_commits import DELETED, PARTITIONS
from delta_log.operations.backup.point_in_time import Cut, TableCut
from delta_log.operations.check.journal_vs_table import check_connection
from delta_log.operations.check.read_journal import JournalLook

#: Tables that have a line in what is printed.
_NAMED: Final = 20


class FileToCopy(NamedTuple):
    """A data file, by its path below the root."""

    table: str
    path: str
    size: int


class BackupProgress(NamedTuple):
    """What is copied now, and how much was before it; of so much that is known by now."""

    path: str
    files: int
    all_files: int
    size: int
    all_bytes: int


@dataclass(frozen=True, slots=True)
class TableCopy:
    """A table as it is in the copy.

    `ends` are the offsets behind the last of each partition, `journaled` how many the journal alone had, `copied` and
    `size` are of the files that were not there yet.
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
    """What a backup is to copy, or did; `str` is what there is to print.

    `left_out` are tables that are not in the copy, with the reasons; `missing` data files that the original lost, so
    that the copy lacks them, too; `damage` what the journal could not give any more, and files that are not what was
    written, in the original and so in the copy.
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
        """Of many tables those of which most is copied have a line, and all that is not in it."""
        most = sorted(self.tables, key=lambda table: table.size, reverse=True)[:_NAMED]
        lines = [str(table) for table in self.tables if table in most]
        lines += [f"and {len(self.tables) - _NAMED} tables more"] if len(self.tables) > _NAMED else []
        lines += [f"not in it: {name}: {why}" for name, why in self.left_out]
        lines += [f"not in it: {path}: it is missing" for path in self.missing]
        lines += [f"not in it: {what}" for what in self.damage]
        return "\n".join([*lines, self.summary])


def expected_ends(table: TableCut, journal: JournalLook) -> tuple[int, ...]:
    """Where each partition ends once the journal was replayed; with offsets whose records it cannot give any more."""
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
    """Records of the journal that no start would replay, here or there."""
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
