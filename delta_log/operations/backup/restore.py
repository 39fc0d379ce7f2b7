"""`restore`: makes a root from a backup, in a place without one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from delta_log.model.errors import InvalidRequest
from delta_log.operations.backup.backup import BACKUP_FILE, backup
from delta_log.operations.backup.report import BackupProgress, BackupReport
from delta_log.operations.check.read_journal import read_if_there
from delta_log.root.root import ROOT_FILE, Root, as_root, open_root
from delta_log.runtime.syscalls import Probe, no_probe


def restore(
    copy: str | Path | Root,
    target: str | Path | Root,
    *,
    dry_run: bool = False,
    progress: Callable[[BackupProgress], None] = lambda _: None,
    probe: Probe = no_probe,
) -> BackupReport:
    """Copy a backup to an empty place; the same call continues a restore that crashed.

    InvalidRequest if `copy` is no backup, or if the target is already a root: existing data is never replaced.
    """
    source, place = as_root(copy), as_root(target, probe=probe)
    open_root(source, create=False)
    if read_if_there(source.store, BACKUP_FILE) is None:
        raise InvalidRequest(f"{source.store.location} is a root, and no backup that `lakelog backup` made")
    if read_if_there(place.store, ROOT_FILE) is not None:
        raise InvalidRequest(f"{place.store.location} holds a root already, and none is replaced")
    return backup(source, place, dry_run=dry_run, progress=progress, probe=probe)
