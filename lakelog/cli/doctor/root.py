"""Trials of `lakelog doctor` at the place of a root: with a root in it, also one in use, or before there is one.

Nothing stays behind and no root is made. In a root its staging folder is used; if there is none yet, a temporary folder
in the place, or in the nearest existing folder above it. The owner's lock is not touched.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from delta_log.model.errors import LakelogError, NotARoot
from delta_log.root.root import Root, RootInfo, as_root, open_root
from delta_log.runtime.ballast import NAME as BALLAST
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.file_modes import find_wider
from delta_log.stores import Store
from delta_log.stores.local import STAGING
from delta_log.stores.store_check import TRIAL_PREFIX, check_put_if_absent, try_directory, try_rights
from lakelog.cli.doctor.findings import Finding, decide_clock, decide_space, decide_trials

__all__ = ["examine_root"]

_RIGHTS_CURE: Final = "give the user of the server these rights on the place"
_ABSENT_CURE: Final = "keep the log in another place: here one writer could overwrite what another has stored"
_CALLS_CURE: Final = "keep the log on a file system that has these calls, as ext4 or XFS: durability rests on them"
_REACH_CURE: Final = "name a place that can be reached, an empty one or a root"


def examine_root(place: str) -> tuple[list[Finding], str | None]:
    """The findings, and the cluster id of the root if there is one."""
    try:
        root = as_root(place)
        info = _look(root)
        if info is None and root.is_foreign():
            why = f"{place} holds something else: it is not empty and has no lakelog.json"
            return [Finding("root", "failed", why, _REACH_CURE)], None
        with _ground(place, root, info) as (store, directory):
            findings = [_tell(place, info), *([] if info is None else [_tell_modes(place)])]
            return [*findings, *_examine(store, directory)], info and info.cluster_id
    except PermissionError as error:
        return [Finding("rights", "failed", str(error), _RIGHTS_CURE)], None
    except (LakelogError, OSError) as error:
        return [Finding("root", "failed", str(error), _REACH_CURE)], None


def _look(root: Root) -> RootInfo | None:
    """Open the root, if there is one; raises NotARoot if its lakelog.json cannot be read."""
    if root.store.stat("lakelog.json") is None:
        return None
    return open_root(root, create=False)


def _tell(place: str, info: RootInfo | None) -> Finding:
    if info is None:
        return Finding("root", "ok", f"{place} holds nothing yet; the first server makes a root of it")
    return Finding("root", "ok", f"{place} has cluster {info.cluster_id} in format {info.format}")


def _tell_modes(place: str) -> Finding:
    said, _, cure = (find_wider(place) or "").partition(": ")
    if said:
        return Finding("file modes", "warning", said, cure)
    return Finding("file modes", "ok", "the log is for its owner, and for readers in the owner's group")


def _examine(store: Store, directory: Path | None) -> list[Finding]:
    """Run the trials; those that need missing rights are left out."""
    findings = [decide_trials("rights", try_rights(store), _RIGHTS_CURE)]
    if findings[0].state == "ok":
        wrong = check_put_if_absent(store)
        findings.append(
            Finding("put-if-absent", "failed", wrong, _ABSENT_CURE)
            if wrong
            else Finding("put-if-absent", "ok", "a taken name is refused, also to many at once")
        )
    if directory is not None:
        findings.append(decide_trials("system calls", try_directory(directory), _CALLS_CURE))
        findings.append(decide_space(shutil.disk_usage(directory).free, ballast_of(store)))
    if findings[0].state == "ok":
        findings.append(decide_clock("clock", "the store's", wall_clock_ms(), store.now_ms()))
    return findings


def ballast_of(store: Store) -> int:
    """Bytes that a root holds in reserve, for a full disk."""
    return sum(entry.size for entry in store.list("journal") if entry.name.startswith(BALLAST))


@contextmanager
def _ground(place: str, root: Root, info: RootInfo | None) -> Generator[tuple[Store, Path | None]]:
    """Target of the trials: a store, and its directory if it has one."""
    if "://" in place:
        yield root.store, None
        return
    folder = Path(place).absolute()
    if info is not None:
        staging = folder / STAGING
        yield root.store, staging if staging.is_dir() else folder
        return
    while not folder.is_dir():
        if folder.exists():
            raise NotARoot(place, f"{folder} is no directory")
        folder = folder.parent
    aside = tempfile.mkdtemp(prefix=TRIAL_PREFIX, dir=folder)
    try:
        yield as_root(aside).store, Path(aside)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
