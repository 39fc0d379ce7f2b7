"""`backup`: copies a root, running or not, as of one moment, between any stores.

    data files  →  | the copy is closed |  logs of the tables, rows only in the journal, as commits  →  | it is open |

A complete copy has no journal: it is like a root after a clean stop, and a server can start on it as on any root. It
keeps the cluster id, and its epochs begin far above those of the original, so that writes of one are never taken for
writes of the other.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from delta_log.model.errors import Corruption, InvalidRequest, NotOwner
from delta_log.operations.backup.copy_files import CopiedFiles, FilesToCopy, copy_files, foresee
from delta_log.operations.backup.finish_copy import (
    close_copy,
    complete_copy,
    delete_unnamed,
    write_epoch,
    write_tables,
)
from delta_log.operations.backup.point_in_time import Cut, newest_epoch, take_cut
from delta_log.operations.backup.report import (
    BackupProgress,
    BackupReport,
    TableCopy,
    misfits,
    table_copy,
)
from delta_log.operations.check.read_journal import read_if_there
from delta_log.operations.check.read_table import open_live
from delta_log.root.root import ROOT_FILE, MemoryRoot, Root, as_root, encode_info, open_root
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.stores import Store
from delta_log.topics.catalog import TOPICS

BACKUP_FILE: Final = "backup.json"
#: More than an original is ever opened, and small enough for copies of copies.
EPOCH_STEP: Final = 1_000_000


class _Marker(msgspec.Struct, frozen=True):
    """The marker of a copy. `epoch` is the backup's last one: a higher one in the copy means that a server ran on it.

    `damaged` are the files that may be damaged.
    """

    cluster_id: str
    run: str
    complete: bool
    epoch: int
    taken_ms: int = 0
    damaged: tuple[str, ...] = ()


def backup(
    root: str | Path | Root,
    target: str | Path | Root,
    *,
    with_journal: bool = True,
    dry_run: bool = False,
    progress: Callable[[BackupProgress], None] = lambda _: None,
    probe: Probe = no_probe,
) -> BackupReport:
    """Copy a root; a repeat with the same target copies only new files.

    The copy has everything that was acknowledged before the start; without the journal, everything in the tables. The
    report names what could not be copied. InvalidRequest if the target is neither an earlier copy nor empty.
    """
    source, place = as_root(root), as_root(target, probe=probe)
    info = open_root(source, create=False)
    if isinstance(source, MemoryRoot) and with_journal:
        raise InvalidRequest("nobody can look at the journal of a log in memory: flush it, and copy without a journal")
    marker = _check_target(source, place, info.cluster_id)

    def take() -> Cut:
        return take_cut(source.store, info, with_journal=with_journal)

    cut = take()
    epoch = max((cut.epoch // EPOCH_STEP + 1) * EPOCH_STEP, marker.epoch - 1 if marker is not None else 0)
    suspect = set(marker.damaged) if marker is not None else set[str]()
    if dry_run:
        return _report(source, place, foresee(source.store, place.store, cut, take, suspect), dry_run=True)
    run = _Marker(info.cluster_id, uuid.uuid4().hex, complete=False, epoch=epoch + 1, taken_ms=source.store.now_ms())
    _put_marker(place.store, run, suspect)
    probe("backup.begun")

    def doubt(suspect: set[str]) -> None:
        _check_ours(place, run)
        _put_marker(place.store, run, suspect)

    copied = copy_files(FilesToCopy(source.store, place.store, take, doubt, progress, probe), cut, suspect)
    cut = copied.cut
    close_copy(place)
    probe("backup.closed")
    write_tables(place.store, cut, probe)
    write_epoch(place.store, epoch, cut.defaults)
    probe("backup.tables_written")
    complete_copy(place, cut, probe)
    report = _report(source, place, copied, dry_run=False)
    delete_unnamed(place.store, probe)
    _open_copy(place, copied, run)
    return report


def _check_target(source: Root, place: Root, cluster_id: str) -> _Marker | None:
    if source.store.location == place.store.location:
        raise InvalidRequest(f"{place.store.location} cannot be a copy of itself")
    raw = read_if_there(place.store, BACKUP_FILE)
    if raw is None:
        if place.is_foreign() or place.store.list(TOPICS):
            raise InvalidRequest(f"{place.store.location} is not empty, and no backup")
        return None
    try:
        marker = msgspec.json.decode(raw, type=_Marker)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"{place.store.location}: {BACKUP_FILE} cannot be read: {error}") from error
    if marker.cluster_id != cluster_id:
        raise InvalidRequest(f"{place.store.location} is a backup of another root, {marker.cluster_id}")
    if newest_epoch(place.store) > marker.epoch:
        raise InvalidRequest(f"{place.store.location} is no backup any more: a server was started on it")
    return marker


def _report(source: Root, place: Root, copied: CopiedFiles, *, dry_run: bool) -> BackupReport:
    cut = copied.cut
    tables = [table_copy(table, cut.journal, copied.files) for table in cut.tables]
    for copy in tables:
        if not dry_run and copy.name not in cut.left_out:
            _check_ends(place.store, copy)
    return BackupReport(
        source.store.location,
        place.store.location,
        tuple(tables),
        tuple(sorted(cut.left_out.items())),
        tuple(copied.missing),
        (*cut.journal.found.damage, *misfits(cut), *_as_written(copied.damage)),
        dry_run,
    )


def _as_written(damage: dict[str, str]) -> list[str]:
    return [f"{path} as it was written: {why}" for path, why in sorted(damage.items())]


def _check_ends(target: Store, copy: TableCopy) -> None:
    """Check in the copy itself that a table ends where it should."""
    live = open_live(target, copy.name)
    ends = () if live is None else tuple(live.table.snapshot.end(index) for index in range(live.partitions))
    if live is not None and not live.deleted and ends != copy.ends:
        raise Corruption(f"{target.location}/{TOPICS}/{copy.name}", f"it ends at {ends}, not {copy.ends}")


def _open_copy(place: Root, copied: CopiedFiles, run: _Marker) -> None:
    """Complete the copy, as the last step: from here on it is a root."""
    _check_ours(place, run)
    _put_marker(place.store, msgspec.structs.replace(run, complete=True), copied.suspect)
    place.store.put(ROOT_FILE, encode_info(copied.cut.info))


def _check_ours(place: Root, run: _Marker) -> None:
    """Raise NotOwner if another backup to the target was begun meanwhile."""
    raw = read_if_there(place.store, BACKUP_FILE)
    if raw is None or msgspec.json.decode(raw, type=_Marker).run != run.run:
        raise NotOwner(f"another backup to {place.store.location} was begun meanwhile")


def _put_marker(target: Store, marker: _Marker, damaged: set[str]) -> None:
    target.put(BACKUP_FILE, msgspec.json.encode(msgspec.structs.replace(marker, damaged=tuple(sorted(damaged)))))
