"""Snapshot: the state of a table at one version, from replaying its commits. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

from delta_log.delta.actions import Action, Add, CommitInfo, MetaData, Protocol, Remove, Txn
from delta_log.model.types import DataFile

EPOCH_TXN: Final = "lakelog/epoch"

_by_base = attrgetter("base_offset")


def end_txn(partition: int) -> str:
    """The transaction id under which a table keeps a partition's table offset: the first that it does not hold."""
    return f"lakelog/end/{partition}"


def start_txn(partition: int) -> str:
    """The transaction id under which a table keeps a partition's log start offset."""
    return f"lakelog/start/{partition}"


def clean_txn(partition: int) -> str:
    """The transaction id under which a table keeps the first offset that no key compaction has seen."""
    return f"lakelog/clean/{partition}"


def tombstones_txns(partition: int) -> tuple[str, str]:
    """The transaction ids of an offset, and of the time since which every tombstone below it is the last of its key."""
    return f"lakelog/tombstones/{partition}", f"lakelog/tombstones-ms/{partition}"


@dataclass(slots=True)
class Snapshot:
    """State of a table; changed by replaying commits in order."""

    version: int = -1
    protocol: Protocol | None = None
    metadata: MetaData | None = None
    txns: dict[str, int] = field(default_factory=dict[str, int])
    removed: dict[str, tuple[Remove, int]] = field(default_factory=dict[str, tuple[Remove, int]])
    _files: dict[int, list[DataFile]] = field(default_factory=dict[int, list[DataFile]])
    _paths: dict[str, DataFile] = field(default_factory=dict[str, DataFile])

    def replay(self, version: int, actions: Iterable[Action]) -> None:
        """Apply the next commit."""
        if version != self.version + 1:
            raise ValueError(f"commit {version} does not follow {self.version}")
        self.version = version
        self.fold(actions)

    def fold(self, actions: Iterable[Action]) -> None:
        """Apply actions without a version of their own: a checkpoint's content.

        The list of a partition's files is replaced, never changed: a list that a reader holds stays consistent.
        """
        added: list[DataFile] = []
        gone: list[Remove] = []
        for action in actions:
            match action:
                case Add():
                    added.append(action.file)
                case Remove():
                    gone.append(action)
                case Txn():
                    self.txns[action.app_id] = action.version
                case MetaData():
                    self.metadata = action
                case Protocol():
                    self.protocol = action
                case CommitInfo():
                    pass
        self._fold_files(added, gone)

    def copy(self) -> Snapshot:
        """A copy to write a checkpoint from while commits continue; without the lists of files by partition."""
        return replace(self, txns=dict(self.txns), removed=dict(self.removed), _files={}, _paths=dict(self._paths))

    def branch(self) -> Snapshot:
        """An independent copy, to replay other commits on; it shares lists of files, which are never changed."""
        paths, files = dict(self._paths), dict(self._files)
        return replace(self, txns=dict(self.txns), removed=dict(self.removed), _paths=paths, _files=files)

    @property
    def configuration(self) -> dict[str, str]:
        return self.metadata.configuration if self.metadata else {}

    @property
    def epoch(self) -> int:
        """The epoch of the last owner that took this table; 0 before the first."""
        return self.txns.get(EPOCH_TXN, 0)

    def end(self, partition: int) -> int:
        return self.txns.get(end_txn(partition), 0)

    def start(self, partition: int) -> int:
        return self.txns.get(start_txn(partition), 0)

    def clean(self, partition: int) -> int:
        """The offset from which no key compaction has removed records."""
        return self.txns.get(clean_txn(partition), 0)

    def files(self, partition: int) -> Sequence[DataFile]:
        """The live files of a partition in offset order."""
        return self._files.get(partition, ())

    def all_files(self) -> Iterable[DataFile]:
        return self._paths.values()

    def has_file(self, path: str) -> bool:
        return path in self._paths

    @property
    def file_count(self) -> int:
        return len(self._paths)

    def forget_removed(self, paths: Iterable[str]) -> None:
        """Drop the tombstones of files that are deleted."""
        for path in paths:
            self.removed.pop(path, None)

    def _fold_files(self, added: Sequence[DataFile], gone: Sequence[Remove]) -> None:
        touched = {file.partition for file in added}
        leaving: set[str] = set()
        for action in gone:
            file = self._paths.pop(action.path, None)
            if file is not None:
                leaving.add(file.path)
                touched.add(file.partition)
            self.removed[action.path] = (action, self.version)
        for file in added:
            if file.path in self._paths:
                leaving.add(file.path)
            self._paths[file.path] = file
            self.removed.pop(file.path, None)
        for partition in touched:
            before = self._files.get(partition, [])
            fresh = sorted((file for file in added if file.partition == partition), key=_by_base)
            if not leaving and (not before or not fresh or before[-1].base_offset <= fresh[0].base_offset):
                self._files[partition] = before + fresh  # most commits; its cost is low even with many files
                continue
            files = [file for file in before if file.path not in leaving] + fresh
            files.sort(key=_by_base)
            self._files[partition] = files


def files_from(files: Sequence[DataFile], offset: int) -> Sequence[DataFile]:
    """The files that hold `offset` or later ones."""
    start = bisect_right(files, offset, key=_by_base)
    if start and files[start - 1].last_offset >= offset:
        start -= 1
    return files[start:]


def files_below(files: Sequence[DataFile], offset: int) -> Sequence[DataFile]:
    """The files that begin below `offset`."""
    return files[: bisect_left(files, offset, key=_by_base)]
