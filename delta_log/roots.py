"""Roots: where a log lives, and who may write to it.

    lakelog.json            written once; names the cluster and the format
    writers/<epoch>.json    one for each opening for writing; the highest is the owner

A local root is held by an flock on `lakelog.json` besides, so that a second process is told at once.
"""

from __future__ import annotations

import fcntl
import os
import platform
import threading
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from delta_log.disk import Disk, Probe, no_probe
from delta_log.errors import NotARoot, RootInUse, StorageRefused
from delta_log.journal import Journal, LocalJournal, MemoryJournal
from delta_log.journal.local import SEGMENT_SIZE
from delta_log.stores import LocalStore, MemoryStore, Store
from delta_log.stores.local import delete_leftovers

ROOT_FILE: Final = "lakelog.json"
FORMAT: Final = 1
_KEPT_WRITERS: Final = 3
#: What may lie in a root that is not one yet: our own first steps, and what a new file system begins with.
_NOT_FOREIGN: Final = ("journal", "lost+found")


class RootInfo(msgspec.Struct, frozen=True):
    cluster_id: str
    format: int


class _Writer(msgspec.Struct, frozen=True):
    """What the file of an epoch says to those who work beside its owner."""

    topic_defaults: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class Root(Protocol):
    """One kind of place: its store, its lock, its journal."""

    @property
    def store(self) -> Store: ...

    def is_foreign(self) -> bool:
        """Whether it holds something that is not ours."""
        ...

    def hold(self) -> None:
        """Keep other writers out for as long as this process lives; RootInUse when one is in."""
        ...

    def let_go(self) -> None: ...

    def journal(self, epoch: int) -> Journal: ...


class LocalRoot:
    """A directory."""

    def __init__(
        self,
        path: str | Path,
        *,
        disk: Disk | None = None,
        probe: Probe = no_probe,
        segment_size: int = SEGMENT_SIZE,
    ) -> None:
        self.path = Path(path).absolute()
        self._disk = disk or Disk()
        self._probe = probe
        self._segment_size = segment_size
        self._store = LocalStore(self.path, disk=self._disk, probe=probe)
        self._lock: int | None = None

    @property
    def store(self) -> Store:
        return self._store

    def is_foreign(self) -> bool:
        if not self.path.exists():
            return False
        if not self.path.is_dir():
            return True
        return any(name not in _NOT_FOREIGN for name in os.listdir(self.path))

    def hold(self) -> None:
        fd = -1
        try:
            fd = os.open(self.path / ROOT_FILE, os.O_RDWR | os.O_CLOEXEC)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            if isinstance(error, BlockingIOError):
                raise RootInUse(str(self.path), _owner(self._store)) from None
            raise StorageRefused(f"the lock on {ROOT_FILE}", error) from error
        self._lock = fd
        delete_leftovers(self.path, time.time_ns() // 1_000_000)

    def let_go(self) -> None:
        """Unlocked in so many words: a child process may hold a copy of the descriptor."""
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = None

    def journal(self, epoch: int) -> Journal:
        directory = self.path / "journal"
        return LocalJournal(directory, epoch, disk=self._disk, probe=self._probe, segment_size=self._segment_size)


class MemoryRoot:
    """Lives as long as the object; opening it again is like starting again on the same disk."""

    def __init__(self) -> None:
        self._store = MemoryStore()
        self._journal = MemoryJournal()
        self._held = threading.Lock()

    @property
    def store(self) -> Store:
        return self._store

    def is_foreign(self) -> bool:
        return False

    def hold(self) -> None:
        if not self._held.acquire(blocking=False):
            raise RootInUse(self._store.location, "this process")

    def let_go(self) -> None:
        if self._held.locked():
            self._held.release()

    def journal(self, epoch: int) -> Journal:
        self._journal.epoch = epoch
        return self._journal


def as_root(
    place: str | Path | Root,
    *,
    disk: Disk | None = None,
    probe: Probe = no_probe,
    segment_size: int = SEGMENT_SIZE,
) -> Root:
    """What a user names: a directory, `memory://` for one that lives as long as this process, or a root itself."""
    if isinstance(place, str | Path):
        scheme, found, _ = str(place).partition("://")
        if found and scheme == "memory":
            return MemoryRoot()
        if found:
            raise NotARoot(str(place), f"this version keeps a log in a directory or in memory, not on {scheme}://")
        return LocalRoot(place, disk=disk, probe=probe, segment_size=segment_size)
    return place


def open_root(root: Root, *, create: bool) -> RootInfo:
    """Read what the root says of itself; make it one when it is empty and `create` is given."""
    store = root.store
    info = _read_info(store)
    if info is None:
        info = _make_root(root) if create else None
    if info is None:
        raise NotARoot(store.location, f"it has no {ROOT_FILE}")
    if info.format > FORMAT:
        raise NotARoot(store.location, f"its format {info.format} is newer than this version, which knows {FORMAT}")
    return info


def claim_epoch(store: Store, now_ms: int, topic_defaults: Mapping[str, object] | None = None) -> int:
    """Take the next epoch: ours alone, and higher than any before. Whoever works beside us learns our defaults by it.

    A number may be free because it was given out, overtaken and deleted while we looked away. As the oldest are
    deleted first, the number before it is gone then, too.
    """
    while True:
        epochs = _epochs(store)
        epoch = max(epochs, default=0) + 1
        owner: dict[str, Any] = {"pid": os.getpid(), "host": platform.node(), "since_ms": now_ms}
        owner["topic_defaults"] = dict(topic_defaults or {})
        if not store.create(_writer_path(epoch), msgspec.json.encode(owner)):
            continue
        now_there = _epochs(store)
        if max(now_there, default=epoch) > epoch and epoch - 1 not in now_there:
            store.delete(_writer_path(epoch))
            continue
        for old in sorted(epochs)[: -_KEPT_WRITERS + 1]:
            store.delete(_writer_path(old))
        return epoch


def read_topic_defaults(store: Store) -> dict[str, object]:
    """What the newest owner gives to topics that are not told otherwise.

    StorageRefused where that cannot be known: a guess might keep, or delete, what the owner would not.
    """
    epochs = _epochs(store)
    if not epochs:
        return {}
    name = _writer_path(max(epochs))
    try:
        return msgspec.json.decode(store.read(name), type=_Writer).topic_defaults
    except (FileNotFoundError, msgspec.DecodeError) as error:
        raise StorageRefused(f"the owner's defaults in {name}", error) from error


def _make_root(root: Root) -> RootInfo | None:
    """Whoever is first makes it; the others take what he made, which also explains what they find there."""
    store = root.store
    if root.is_foreign():
        info = _read_info(store)
        if info is None:
            raise NotARoot(store.location, f"it is not empty and has no {ROOT_FILE}")
        return info
    store.create(ROOT_FILE, msgspec.json.encode(RootInfo(uuid.uuid4().hex, FORMAT)))
    return _read_info(store)


def _read_info(store: Store) -> RootInfo | None:
    try:
        return msgspec.json.decode(store.read(ROOT_FILE), type=RootInfo)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise NotARoot(store.location, f"{ROOT_FILE} cannot be read: {error}") from error


def _epochs(store: Store) -> list[int]:
    names = (entry.name.removesuffix(".json") for entry in store.list("writers"))
    return [int(name) for name in names if name.isdigit()]


def _writer_path(epoch: int) -> str:
    return f"writers/{epoch:010d}.json"


def _owner(store: Store) -> str:
    try:
        owner = msgspec.json.decode(store.read(_writer_path(max(_epochs(store)))))
        return f"process {owner['pid']} on {owner['host']}"
    except (FileNotFoundError, ValueError, KeyError, msgspec.DecodeError):
        return "another process"
