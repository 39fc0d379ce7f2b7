"""What a repair may do, each as a value that says what it is. Pure.

A cure is safe: what was acknowledged is as readable after it as before or more so, and no offset is given out twice.
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
    """Put an entry without content in place of an unreadable newest one.

    Its version stays taken: who read it while it was sound does not meet another commit under its number. `epoch` is
    the owner's that it made known, where later rows in the journal prove that it did. `newest` is the version of the
    newest entry: behind the unreadable one there may be what a repair that died wrote; `owner` the table's epoch then.
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
    """A checkpoint in place of one that cannot be read or is wrong."""

    directory: str
    version: int
    state: Snapshot

    def __str__(self) -> str:
        return f"{self.directory}/{checkpoint_path(self.version)}: write it anew from the entries"


@dataclass(frozen=True, slots=True)
class ReplaceCheckpoint:
    """One whose own version nothing leads to any more: write one of the present version, then remove the bad one."""

    directory: str
    version: int
    state: Snapshot

    def __str__(self) -> str:
        present = f"write one of the present version {self.state.version} instead"
        return f"{self.directory}/{checkpoint_path(self.version)}: {present}, and remove it"


@dataclass(frozen=True, slots=True)
class PointToCheckpoint:
    """Have `_last_checkpoint` name the newest sound one; `version` −1 removes it."""

    directory: str
    version: int
    size: int

    def __str__(self) -> str:
        does = f"name checkpoint {self.version}" if self.version >= 0 else "remove it, as there is no checkpoint"
        return f"{self.directory}/{HINT}: {does}"


@dataclass(frozen=True, slots=True)
class RestoreFile:
    """Have a new file with the same rows, from the journal, stand for one that is damaged or missing."""

    table: str
    directory: str
    file: DataFile

    def __str__(self) -> str:
        file = self.file
        what = f"write its {file.count} records, {file.base_offset} to {file.last_offset}, anew from the journal"
        return f"{self.directory}/{file.path}: {what}"


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Record offsets as lost; of the files that had them, what can be read is written anew."""

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
    """Replay what can be read of a journal with neighbouring unreadable groups, and bring all of it into the tables.

    Of the partitions that no later frame speaks of, as many offsets are skipped as the unreadable bytes can have given
    out, so that none is given out twice.
    """

    unreadable: tuple[str, ...]
    doubts: tuple[Doubt, ...]

    def __str__(self) -> str:
        text = f"journal: replay all but {', '.join(self.unreadable)}, whose records are lost, into the tables"
        skipped = ", ".join(map(str, self.doubts))
        return f"{text}; never give out, as they may have been: {skipped}" if skipped else text


@dataclass(frozen=True, slots=True)
class KnowEpochs:
    """Take an epoch behind all that wrote to these tables and are not in `writers/`: the next owner is later."""

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
