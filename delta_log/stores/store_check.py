"""Checks that a store has the guarantees that a log relies on, by trying them before anything depends on it.

All trials use blobs with unique names, in a folder where remains of a crash are cleaned up; nothing stays behind, and
running processes are not disturbed. It must not know what a root is.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Final

from delta_log.model.errors import LakelogError
from delta_log.runtime.syscalls import Disk
from delta_log.stores import Store
from delta_log.stores.local import STAGING

__all__ = ["TRIAL_PREFIX", "Trial", "check_put_if_absent", "try_directory", "try_rights"]

#: Prefix of folders for trials where there is no root yet; a crash may leave one there.
TRIAL_PREFIX: Final = ".lakelog-trial-"
_RACERS: Final = 8
_FAILURES: Final = (LakelogError, OSError)


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial, and its failure if any."""

    what: str
    wrong: str | None = None


def check_put_if_absent(store: Store) -> str | None:
    """Check that the store refuses to create a name that is taken; returns the failure, or None.

    Otherwise one writer's commit would replace another's, whose acknowledged records would be lost: no log must be
    opened in such a store. Errors of the store are returned, too.
    """
    with _probes(store) as name:
        try:
            return _try_twice(store, name()) or _try_at_once(store, name())
        except _FAILURES as error:
            return str(error)


def try_rights(store: Store) -> list[Trial]:
    """Try a log's operations on blobs; if the first fails, the others are left out."""
    with _probes(store) as name:
        path = name()
        directory, _, leaf = path.rpartition("/")

        def read_back(content: bytes) -> None:
            _demand(store.read(path) == content, "something else came back than was stored")

        def list_it() -> None:
            _demand(leaf in [entry.name for entry in store.list(directory)], "what was stored is not listed")

        def replace() -> None:
            store.put(path, b"two")
            read_back(b"two")

        def delete() -> None:
            store.delete(path)
            _demand(store.stat(path) is None, "what was deleted is still there")

        created = _try("create", lambda: _demand(store.create(path, b"one"), "a fresh name was taken"))
        if created.wrong is not None:
            return [created]
        steps = {"read": lambda: read_back(b"one"), "list": list_it, "replace": replace, "delete": delete}
        return [created, *(_try(what, step) for what, step in steps.items())]


def try_directory(directory: Path, disk: Disk | None = None) -> list[Trial]:
    """Try the system calls that durability and the owner's lock rely on, in an existing directory."""
    disk = disk or Disk()
    stem = directory / f"probe-{uuid.uuid4().hex}"
    one, two, three = (f"{stem}-{number}" for number in range(3))
    steps: dict[str, Callable[[], None]] = {
        "write and fsync": lambda: _write_synced(disk, one),
        "link": lambda: disk.link(one, two),
        "link to a taken name": lambda: _link_in_vain(disk, one, two),
        "flock": lambda: _lock_twice(disk, one),
        "rename": lambda: disk.rename(one, three),
        "fsync of a directory": lambda: disk.sync_directory(str(directory)),
    }
    trials: list[Trial] = []
    try:
        for what, step in steps.items():
            trials.append(_try(what, step))
            if trials[0].wrong is not None:
                break
    finally:
        for path in (one, two, three):
            with suppress(OSError):
                disk.unlink(path)
    return trials


def _try_twice(store: Store, path: str) -> str | None:
    if not store.create(path, b"first"):
        return "a creation of a fresh name was refused"
    if store.create(path, b"second"):
        return "a second creation of the same name was not refused"
    return None if store.read(path) == b"first" else "a refused creation took the place of what was there"


def _try_at_once(store: Store, path: str) -> str | None:
    gate = Barrier(_RACERS)

    def create(content: bytes) -> bool:
        gate.wait()
        return store.create(path, content)

    contents = [b"%d" % number for number in range(_RACERS)]
    with ThreadPoolExecutor(_RACERS) as pool:
        won = list(pool.map(create, contents))
    if won.count(True) != 1:
        return f"of {_RACERS} creations of the same name at once {won.count(True)} were accepted, not one"
    if store.read(path) != contents[won.index(True)]:
        return "of several creations at once another than the accepted one is there"
    return None


@contextmanager
def _probes(store: Store) -> Generator[Callable[[], str]]:
    """Names for probe blobs, which are deleted at the end."""
    paths: list[str] = []

    def name() -> str:
        paths.append(f"{STAGING}/probe-{uuid.uuid4().hex}")
        return paths[-1]

    try:
        yield name
    finally:
        for path in paths:
            with suppress(*_FAILURES):
                store.delete(path)


def _try(what: str, step: Callable[[], object]) -> Trial:
    try:
        step()
    except _FAILURES as error:
        return Trial(what, str(error))
    return Trial(what)


def _demand(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - the condition is the subject
    if not holds:
        raise OSError(otherwise)


def _write_synced(disk: Disk, path: str) -> None:
    fd = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        disk.write(fd, b"lakelog", 0)
        disk.sync(fd)
    finally:
        disk.close(fd)


def _link_in_vain(disk: Disk, source: str, target: str) -> None:
    try:
        disk.link(source, target)
    except FileExistsError:
        return
    raise OSError("it was not refused")


def _lock_twice(disk: Disk, path: str) -> None:
    """Check that the second of two locks is refused; otherwise two servers could own a root."""
    fds = [disk.open(path, os.O_RDWR), disk.open(path, os.O_RDWR)]
    try:
        fcntl.flock(fds[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(fds[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        raise OSError("a second lock was not refused")
    finally:
        for fd in fds:
            disk.close(fd)
