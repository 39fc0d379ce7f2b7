"""The actions of a repair, as values; `str` describes each. Pure.

A cure is safe: acknowledged records are at least as readable after it as before, and no offset is assigned twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from delta_log.delta.checkpoint import checkpoint_path
from delta_log.delta.snapshot import Snapshot
from delta_log.delta.table import entry_path
from delta_log.journal.unreadable_groups import Doubt
from delta_log.model.lost_ranges import LostRange
from delta_log.model.types import DataFile
from delta_log.operations.check.judge_log import HINT


@dataclass(frozen=True, slots=True)
class EmptyEntry:
    """Replace an unreadable newest entry by an empty one.

    Its version stays taken: a reader that read it while it was sound never meets another commit of that number. `epoch`
    is the owner's epoch that the entry made known, if later rows in the journal prove that it did. `newest` is the
    version of the newest entry: a crashed repair may have written entries after the unreadable one; `owner` is the
    table's epoch then.
    """

    directory: str
    version: int
    why: str
    epoch: int | None = None
    newest: int = 0
    owner: int = 0

    def __str__(self) -> str:
        return f"{self.directory}/{entry_path(self.version)}: put an empty entry in its place ({self.why})"


@dataclass(frozen=True, slots=True)
class WriteCheckpoint:
    """Rewrite a checkpoint that is unreadable or wrong."""

    directory: str
    version: int
    state: Snapshot

    def __str__(self) -> str:
        return f"{self.directory}/{checkpoint_path(self.version)}: write it anew from the entries"


@dataclass(frozen=True, slots=True)
class ReplaceCheckpoint:
    """Replace a checkpoint that cannot be rebuilt: write one of the present version, then remove the bad one."""

    directory: str
    version: int
    state: Snapshot

    def __str__(self) -> str:
        present = f"write one of the present version {self.state.version} instead"
        return f"{self.directory}/{checkpoint_path(self.version)}: {present}, and remove it"


@dataclass(frozen=True, slots=True)
class PointToCheckpoint:
    """Point `_last_checkpoint` to the newest sound checkpoint; `version` −1 removes the hint."""

    directory: str
    version: int
    size: int

    def __str__(self) -> str:
        does = f"name checkpoint {self.version}" if self.version >= 0 else "remove it, as there is no checkpoint"
        return f"{self.directory}/{HINT}: {does}"


@dataclass(frozen=True, slots=True)
class RestoreFile:
    """Replace a damaged or missing file by a new one with the same rows from the journal."""

    table: str
    directory: str
    file: DataFile

    def __str__(self) -> str:
        file = self.file
        what = f"write its {file.count} records, {file.base_offset} to {file.last_offset}, anew from the journal"
        return f"{self.directory}/{file.path}: {what}"


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Record offsets as lost; the readable rows of the files that had them are rewritten."""

    table: str
    directory: str
    lost: LostRange
    files: tuple[DataFile, ...]

    def __str__(self) -> str:
        lost = self.lost
        text = (
            f"{self.directory}: give up {lost.size} offsets of partition {lost.partition}, {lost.first} to {lost.last}"
        )
        if not self.files:
            return text
        return f"{text}, and write anew what can be read of {', '.join(file.path for file in self.files)}"


@dataclass(frozen=True, slots=True)
class SettleJournal:
    """Replay the readable part of a journal with neighbouring unreadable groups, and bring all of it into the tables.

    In partitions without a later frame, as many offsets are skipped as the unreadable bytes can have assigned, so that
    none is assigned twice.
    """

    unreadable: tuple[str, ...]
    doubts: tuple[Doubt, ...]

    def __str__(self) -> str:
        text = f"journal: replay all but {', '.join(self.unreadable)}, whose records are lost, into the tables"
        skipped = ", ".join(map(str, self.doubts))
        return f"{text}; never give out, as they may have been: {skipped}" if skipped else text


@dataclass(frozen=True, slots=True)
class KnowEpochs:
    """Claim an epoch above those that wrote to these tables but are not in `writers/`: the next owner's is later."""

    epochs: tuple[tuple[str, int], ...]

    @property
    def newest(self) -> int:
        return max(epoch for _, epoch in self.epochs)

    def __str__(self) -> str:
        return "; ".join(f"{directory}: have writers/ know that epoch {epoch} was" for directory, epoch in self.epochs)


Cure = (
    EmptyEntry
    | WriteCheckpoint
    | ReplaceCheckpoint
    | PointToCheckpoint
    | RestoreFile
    | GiveUp
    | SettleJournal
    | KnowEpochs
)
