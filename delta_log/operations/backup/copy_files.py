"""The data files of a copy.

They never change, so those that are there are not copied again; but for those that were not what was written when they
were copied. Much of one may be readable, so it is copied as it is. The copy remembers which they are, before it has a
byte of them under their names: each backup tries them again, and names those that are no better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import pyarrow as pa

from delta_log.delta.checksums import sealed_parts
from delta_log.model.errors import Corruption, StorageRefused
from delta_log.operations.backup.point_in_time import Cut, TableCut
from delta_log.operations.backup.report import BackupProgress, FileToCopy
from delta_log.runtime.syscalls import Probe
from delta_log.stores import Store

_CUTS: Final = 10
_PART: Final = 4 * 1024 * 1024


class FilesToCopy(NamedTuple):
    """From where to where. `take` answers a newer cut; `doubt` has the copy remember which files are suspect."""

    source: Store
    target: Store
    take: Callable[[], Cut]
    doubt: Callable[[set[str]], None]
    progress: Callable[[BackupProgress], None]
    at: Probe


@dataclass(slots=True)
class CopiedFiles:
    """The files of a cut, as they are in the target: which of them were copied, and which are not as they should be.

    `suspect` are those that are not known to be what was written; `damage` says why of those that were copied now.
    """

    cut: Cut
    suspect: set[str]
    files: list[FileToCopy] = field(default_factory=list[FileToCopy])
    missing: list[str] = field(default_factory=list[str])
    damage: dict[str, str] = field(default_factory=dict[str, str])


def foresee(source: Store, target: Store, cut: Cut, take: Callable[[], Cut], suspect: set[str]) -> CopiedFiles:
    """What a copy comes to, as far as that can be told without reading the files."""
    wanted = _to_copy(cut, target, suspect)
    there = {path: size for table in cut.tables for path, size in _sizes(source, table).items()}
    absent = {file.path for file in wanted} - there.keys()
    return CopiedFiles(
        cut,
        suspect,
        [file for file in wanted if file.path in there],
        sorted(absent & _named(take())) if absent else [],
        {file.path: _misfit(there[file.path], file) for file in wanted if there.get(file.path, file.size) != file.size},
    )


def copy_files(order: FilesToCopy, cut: Cut, suspect: set[str]) -> CopiedFiles:
    """Until all files of one moment are there: those of an earlier one may be deleted while we copy."""
    copied = CopiedFiles(cut, set(suspect))
    tried: set[str] = set()
    gone: set[str] = set()
    for _ in range(_CUTS):
        wanted = [file for file in _to_copy(copied.cut, order.target, copied.suspect) if file.path not in tried]
        went = _copy_all(order, wanted, copied)
        tried |= {file.path for file in wanted}
        gone |= went
        named = _named(copied.cut)
        if not went:
            copied.missing = sorted(gone & named)
            copied.damage = {path: why for path, why in copied.damage.items() if path in named}
            copied.suspect &= named
            return copied
        copied.cut = order.take()
    raise StorageRefused("a copy of the root", "its files move faster than they can be copied; try again")


def _to_copy(cut: Cut, target: Store, suspect: set[str]) -> list[FileToCopy]:
    """The data files that are not in the target yet, as far as is known."""
    wanted: list[FileToCopy] = []
    for table in cut.tables:
        there = _sizes(target, table)
        files = [
            FileToCopy(table.name, f"{table.directory}/{file.path}", file.size) for file in table.state.all_files()
        ]
        wanted += [file for file in files if there.get(file.path) != file.size or file.path in suspect]
    return wanted


def _sizes(store: Store, table: TableCut) -> dict[str, int]:
    """Of what there is where a table has its files."""
    there: dict[str, int] = {}
    for below in {file.path.rpartition("/")[0] for file in table.state.all_files()}:
        directory = f"{table.directory}/{below}".rstrip("/")
        there |= {f"{directory}/{entry.name}": entry.size for entry in store.list(directory)}
    return there


def _named(cut: Cut) -> set[str]:
    return {f"{table.directory}/{file.path}" for table in cut.tables for file in table.state.all_files()}


def _copy_all(order: FilesToCopy, wanted: Sequence[FileToCopy], copied: CopiedFiles) -> set[str]:
    """Those of them that were not there any more."""
    went: set[str] = set()
    size, all_bytes = 0, sum(file.size for file in wanted)
    for number, file in enumerate(wanted):
        order.progress(BackupProgress(file.path, number, len(wanted), size, all_bytes))
        size += file.size
        try:
            with closing(order.source.open_input(file.path)) as opened:
                _copy(order, file, opened, copied)
            copied.files.append(file)
        except FileNotFoundError:
            went.add(file.path)
        order.at("backup.file_copied")
    return went


def _copy(order: FilesToCopy, file: FileToCopy, opened: pa.NativeFile, copied: CopiedFiles) -> None:
    try:
        order.target.put_parts(file.path, _sound_parts(opened, file))
        copied.suspect.discard(file.path)
    except Corruption as error:
        copied.damage[file.path] = error.why
        copied.suspect.add(file.path)
        order.doubt(copied.suspect)
        order.target.put_parts(file.path, _parts(opened))


def _sound_parts(opened: pa.NativeFile, file: FileToCopy) -> Iterator[bytes]:
    """Corruption, behind the last at latest, where it is not what its table says."""
    if opened.size() != file.size:
        raise Corruption(file.path, _misfit(opened.size(), file))
    try:
        yield from sealed_parts(opened, _PART)
    except ValueError as error:
        raise Corruption(file.path, str(error)) from error


def _parts(opened: pa.NativeFile) -> Iterator[bytes]:
    opened.seek(0)
    while part := opened.read(_PART):
        yield part


def _misfit(size: int, file: FileToCopy) -> str:
    return f"it has {size} bytes, not {file.size}"
