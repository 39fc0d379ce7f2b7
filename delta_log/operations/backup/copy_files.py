"""The data files of a copy.

Data files never change, so files in the copy are not copied again, except those that were damaged when they were
copied. A damaged file may be largely readable, so it is copied as it is. The copy records its name before it has a byte
of it under that name: each backup tries such files again, and reports those that are still damaged.
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
    """An order to copy files. `take` returns a newer cut; `doubt` records in the copy which files are suspect."""

    source: Store
    target: Store
    take: Callable[[], Cut]
    doubt: Callable[[set[str]], None]
    progress: Callable[[BackupProgress], None]
    at: Probe


@dataclass(slots=True)
class CopiedFiles:
    """The files of a cut in the target: which were copied, and which are missing or damaged.

    `suspect` are the files that may be damaged; `damage` has the reasons for those copied now.
    """

    cut: Cut
    suspect: set[str]
    files: list[FileToCopy] = field(default_factory=list[FileToCopy])
    missing: list[str] = field(default_factory=list[str])
    damage: dict[str, str] = field(default_factory=dict[str, str])


def foresee(source: Store, target: Store, cut: Cut, take: Callable[[], Cut], suspect: set[str]) -> CopiedFiles:
    """Estimate a copy without reading the files."""
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
    """Copy until all files of one cut are there: files of an older cut may be deleted during the copy."""
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
    """The data files that are not known to be in the target already."""
    wanted: list[FileToCopy] = []
    for table in cut.tables:
        there = _sizes(target, table)
        files = [
            FileToCopy(table.name, f"{table.directory}/{file.path}", file.size) for file in table.state.all_files()
        ]
        wanted += [file for file in files if there.get(file.path) != file.size or file.path in suspect]
    return wanted


def _sizes(store: Store, table: TableCut) -> dict[str, int]:
    """Sizes of all files in a table's data directories."""
    there: dict[str, int] = {}
    for below in {file.path.rpartition("/")[0] for file in table.state.all_files()}:
        directory = f"{table.directory}/{below}".rstrip("/")
        there |= {f"{directory}/{entry.name}": entry.size for entry in store.list(directory)}
    return there


def _named(cut: Cut) -> set[str]:
    return {f"{table.directory}/{file.path}" for table in cut.tables for file in table.state.all_files()}


def _copy_all(order: FilesToCopy, wanted: Sequence[FileToCopy], copied: CopiedFiles) -> set[str]:
    """Copy files; returns the paths of those that were gone."""
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
    """Yield a file's parts; Corruption, at the latest after the last part, if the file is damaged."""
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
