"""Roots: the location of a log, and its ownership.

    lakelog.json            written once; names the cluster and the format
    writers/<epoch>.json    one for each opening for writing; the highest is the owner

A local root is also held by an flock on `lakelog.json`, so that a second process is refused at once. An object store
has no such lock: there each process that opens the root takes it over, and the journal fences the former owner.

Past 300 lines, because all kinds of root are kept beside the two files that they share.
"""

from __future__ import annotations

import fcntl
import os
import platform
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from delta_log.journal import Journal, LocalJournal, MemoryJournal
from delta_log.journal.local import SEGMENT_SIZE, delete_spares
from delta_log.model.errors import InvalidConfig, NotARoot, NotOwner, RootInUse, StorageRefused
from delta_log.model.store_location import OBJECT_SCHEMES, options_of
from delta_log.root.checked_json import decode_checked, encode_checked
from delta_log.root.owner_epoch import is_replaced, writer_path
from delta_log.runtime.ballast import Ballast
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.disk_room import BallastThread, DiskRoom
from delta_log.runtime.syscalls import Disk, Probe, no_probe
from delta_log.stores import LocalStore, MemoryStore, Store
from delta_log.stores.local import STAGING, delete_leftovers
from delta_log.stores.store_check import TRIAL_PREFIX, check_put_if_absent

ROOT_FILE: Final = "lakelog.json"
FORMAT: Final = 1
_KEPT_WRITERS: Final = 3
#: On a full disk, files staged for longer than this are deleted.
_ABANDONED_MS: Final = 60_000
#: Names allowed in an empty root: from an earlier start that was cut short, and of a new file system.
_NOT_FOREIGN: Final = ("journal", "lost+found")


class RootInfo(msgspec.Struct, frozen=True):
    cluster_id: str
    format: int


class _Writer(msgspec.Struct, frozen=True):
    """Content of an epoch file: identifies the owner, and gives its topic defaults to jobs beside it."""

    pid: int = 0
    host: str = ""
    topic_defaults: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


def encode_info(info: RootInfo) -> bytes:
    return encode_checked(info)


def decode_info(data: bytes) -> RootInfo:
    """Decode a root file; DecodeError if it is damaged."""
    return decode_checked(data, RootInfo, ("cluster_id", "format"))


def decode_writer(data: bytes) -> _Writer:
    """Decode an epoch file; DecodeError if it is damaged."""
    return decode_checked(data, _Writer, ("pid", "host", "since_ms", "id", "topic_defaults"))


class Root(Protocol):
    """A kind of root: its store, its lock, its journal."""

    #: True if `hold` keeps other writers out; else it only checks that the store can fence them.
    locks: bool
    #: Number of files that are worth writing concurrently.
    writes_at_once: int

    @property
    def store(self) -> Store: ...

    def is_foreign(self) -> bool:
        """True if it contains anything that a location without a root may not have."""
        ...

    def hold(self) -> None:
        """Keep other writers out as long as this process lives; RootInUse if there is one."""
        ...

    def let_go(self) -> None: ...

    def journal(self, epoch: int) -> Journal: ...

    @property
    def owners(self) -> Store:
        """The store for epoch files; writable even while the disk counts as full."""
        ...

    @property
    def room(self) -> DiskRoom:
        """The state of free space on the root's disk."""
        ...

    def ballast(self, journal: Journal, size: int) -> BallastThread | None:
        """The thread that maintains a ballast; None where there is no disk."""
        ...

    def make_room(self) -> bool:
        """Free the most dispensable space when a start fails on a full disk; False if nothing is left to free."""
        ...

    @property
    def scratch(self) -> Path | None:
        """Directory for unnamed temporary files; None for the system's default."""
        ...


class LocalRoot:
    """A root in a directory."""

    locks = True
    writes_at_once = 1

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
        self._room = DiskRoom()
        self._store = LocalStore(self.path, disk=self._disk, probe=probe, room=self._room)
        self._owners = LocalStore(self.path, disk=self._disk, probe=probe)
        self._ballast = Ballast(self.path / "journal", disk=self._disk, probe=probe)
        self._lock: int | None = None

    @property
    def store(self) -> Store:
        return self._store

    def is_foreign(self) -> bool:
        if not self.path.exists():
            return False
        if not self.path.is_dir():
            return True
        names = (name for name in os.listdir(self.path) if not name.startswith(TRIAL_PREFIX))
        return any(name not in _NOT_FOREIGN for name in names)

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
        delete_leftovers(self.path, wall_clock_ms())

    def let_go(self) -> None:
        """Unlock explicitly: a forked child may still hold the descriptor."""
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            os.close(self._lock)
            self._lock = None

    def journal(self, epoch: int) -> Journal:
        return LocalJournal(
            self.path / "journal",
            epoch,
            disk=self._disk,
            probe=self._probe,
            segment_size=self._segment_size,
            room=self._room,
            still_held=partial(self._hold_still, epoch),
        )

    def _hold_still(self, epoch: int) -> None:
        """Check that no other process had the root meanwhile: a failed disk may return as another, without the lock.

        NotOwner if one had; StorageRefused while that is unknown.
        """
        try:
            fd = os.open(self.path / ROOT_FILE, os.O_RDWR | os.O_CLOEXEC)
            try:
                if not _is_same_file(fd, self._lock):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    fd, self._lock = self._lock, fd
            finally:
                if fd is not None:
                    with suppress(OSError):
                        os.close(fd)
        except BlockingIOError:
            raise NotOwner(f"{_owner(self._store)} has the lock on {ROOT_FILE}") from None
        except OSError as error:
            raise StorageRefused(f"the lock on {ROOT_FILE}", error) from error
        if is_replaced(self._store, epoch):
            raise NotOwner(f"there is a later epoch than {epoch}")

    @property
    def owners(self) -> Store:
        return self._owners

    @property
    def room(self) -> DiskRoom:
        return self._room

    def ballast(self, journal: Journal, size: int) -> BallastThread | None:
        def give_back_more() -> None:
            journal.give_back()
            delete_leftovers(self.path, wall_clock_ms(), after_ms=_ABANDONED_MS)

        with suppress(OSError):
            self._ballast.drop_holes()
        free_bytes = partial(self._disk.free_bytes, str(self.path))
        return BallastThread(self._room, self._ballast, size, free_bytes=free_bytes, give_back_more=give_back_more)

    def make_room(self) -> bool:
        if delete_leftovers(self.path, wall_clock_ms(), after_ms=_ABANDONED_MS):
            return True
        if delete_spares(self.path / "journal", self._disk):
            return True
        return self._ballast.give_back(1) > 0

    @property
    def scratch(self) -> Path | None:
        return self.path / STAGING


class MemoryRoot:
    """A root in memory, for the life of the object; opening it again is like a restart on the same disk."""

    locks = True
    writes_at_once = 1

    def __init__(self) -> None:
        self._store = MemoryStore()
        self._journal = MemoryJournal()
        self._held = threading.Lock()
        self._room = DiskRoom()

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

    @property
    def owners(self) -> Store:
        return self._store

    @property
    def room(self) -> DiskRoom:
        return self._room

    def ballast(self, journal: Journal, size: int) -> BallastThread | None:  # noqa: ARG002 - there is no disk
        return None

    def make_room(self) -> bool:
        return False

    @property
    def scratch(self) -> Path | None:
        return None

    def journal(self, epoch: int) -> Journal:
        self._journal.epoch = epoch
        return self._journal


class ObjectRoot:
    """A root in a bucket, or below a prefix in one. Opening it takes it over; the former owner is fenced."""

    locks = False
    writes_at_once = 8

    def __init__(self, store: Store, *, linger_ms: int = 50) -> None:
        self._store = store
        self._linger_ms = linger_ms
        self._room = DiskRoom()

    @property
    def store(self) -> Store:
        return self._store

    def is_foreign(self) -> bool:
        return any(entry.name not in _NOT_FOREIGN for entry in self._store.list(""))

    def hold(self) -> None:
        """Check that the store refuses the second of two creations: no lock exists, and fencing depends on it."""
        wrong = check_put_if_absent(self._store)
        if wrong is not None:
            raise NotARoot(self._store.location, f"its store cannot keep a log: {wrong}")

    def let_go(self) -> None:
        """Do nothing: no lock is held."""

    @property
    def owners(self) -> Store:
        return self._store

    @property
    def room(self) -> DiskRoom:
        return self._room

    def ballast(self, journal: Journal, size: int) -> BallastThread | None:  # noqa: ARG002 - there is no disk
        return None

    def make_room(self) -> bool:
        return False

    @property
    def scratch(self) -> Path | None:
        return None

    def journal(self, epoch: int) -> Journal:
        from delta_log.journal.objects import ObjectJournal  # noqa: PLC0415 - most processes never need it

        return ObjectJournal(
            self._store, epoch, newest_epoch=lambda: max(_epochs(self._store), default=0), linger_ms=self._linger_ms
        )


def as_root(
    place: str | Path | Root,
    *,
    disk: Disk | None = None,
    probe: Probe = no_probe,
    segment_size: int = SEGMENT_SIZE,
    linger_ms: int = 50,
    store_options: Mapping[str, str] | None = None,
) -> Root:
    """Resolve a user's location: a directory, a bucket, `memory://` for the life of this process, or a root."""
    if not isinstance(place, str | Path):
        return place
    scheme, found, rest = str(place).partition("://")
    if not found:
        return LocalRoot(place, disk=disk, probe=probe, segment_size=segment_size)
    if scheme == "memory":
        return MemoryRoot()
    if scheme not in OBJECT_SCHEMES:
        kinds = ", ".join(f"{each}://" for each in OBJECT_SCHEMES)
        raise NotARoot(str(place), f"a log is kept in a directory, in memory, or on {kinds}, not on {scheme}://")
    if not rest.strip("/"):
        raise NotARoot(str(place), "it names no bucket")
    return ObjectRoot(_open_store(place, store_options), linger_ms=linger_ms)


def _open_store(place: str | Path, options: Mapping[str, str] | None) -> Store:
    from delta_log.stores.objects import ObjectStore  # noqa: PLC0415 - likewise

    try:
        return ObjectStore(str(place), options_of(place) | dict(options or {}))
    except InvalidConfig as error:
        raise NotARoot(str(place), str(error)) from error


def open_root(root: Root, *, create: bool) -> RootInfo:
    """Read the root file; create it if the root is empty and `create` is given."""
    store = root.store
    info = _read_info(store)
    if info is None:
        info = _make_root(root) if create else None
    if info is None:
        raise NotARoot(store.location, f"it has no {ROOT_FILE}")
    if info.format > FORMAT:
        why = f"its format {info.format} is newer than this version, which knows {FORMAT}: install a newer one"
        raise NotARoot(store.location, why)
    return info


def has_owners(store: Store) -> bool:
    """True if an owner of this root is known; a copy of the tables alone has none."""
    return bool(_epochs(store))


def claim_epoch(
    store: Store, now_ms: int, topic_defaults: Mapping[str, object] | None = None, *, after: int = 0
) -> int:
    """Claim the next epoch, unique and higher than any before. Its file gives the topic defaults to jobs.

    A number may be free because it was claimed, overtaken and deleted since the listing. As the oldest are deleted
    first, the number before it is gone then, too.
    """
    while True:
        epochs = _epochs(store)
        epoch = next_epoch(store, after)
        owner: dict[str, Any] = {"pid": os.getpid(), "host": platform.node(), "since_ms": now_ms}
        owner["id"] = uuid.uuid4().hex
        owner["topic_defaults"] = dict(topic_defaults or {})
        if not store.create(writer_path(epoch), encode_checked(owner)):
            continue
        now_there = _epochs(store)
        if max(now_there, default=epoch) > epoch and epoch - 1 not in now_there:
            store.delete(writer_path(epoch))
            continue
        for old in sorted(epochs)[: -_KEPT_WRITERS + 1]:
            store.delete(writer_path(old))
        return epoch


def next_epoch(store: Store, after: int = 0) -> int:
    """The epoch that `claim_epoch` takes without a concurrent claim."""
    return max([*_epochs(store), after]) + 1


def read_topic_defaults(store: Store) -> dict[str, object]:
    """The newest owner's defaults for topic settings.

    StorageRefused if they are unknown: a guess might keep or delete records against the owner's settings.
    """
    epochs = _epochs(store)
    if not epochs:
        return {}
    name = writer_path(max(epochs))
    try:
        return decode_writer(store.read(name)).topic_defaults
    except (FileNotFoundError, msgspec.DecodeError) as error:
        raise StorageRefused(f"the owner's defaults in {name}", error) from error


def _make_root(root: Root) -> RootInfo | None:
    """Create the root file; of concurrent starts the first creates it, and the others read that one."""
    store = root.store
    if root.is_foreign():
        info = _read_info(store)
        if info is None:
            raise NotARoot(store.location, f"it is not empty and has no {ROOT_FILE}")
        return info
    if not root.locks:
        root.hold()  # a store that cannot keep a log is not made a root
    store.create(ROOT_FILE, encode_info(RootInfo(uuid.uuid4().hex, FORMAT)))
    return _read_info(store)


def _read_info(store: Store) -> RootInfo | None:
    try:
        return decode_info(store.read(ROOT_FILE))
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise NotARoot(store.location, f"{ROOT_FILE} cannot be read: {error}") from error


def _is_same_file(fd: int, lock: int | None) -> bool:
    """True if the lock is on this same file; false if its descriptor is not usable any more."""
    try:
        return lock is not None and os.path.sameopenfile(fd, lock)
    except OSError:
        return False


def _epochs(store: Store) -> list[int]:
    names = (entry.name.removesuffix(".json") for entry in store.list("writers"))
    return [int(name) for name in names if name.isdigit()]


def _owner(store: Store) -> str:
    try:
        owner = decode_writer(store.read(writer_path(max(_epochs(store)))))
        return f"process {owner.pid} on {owner.host}"
    except (FileNotFoundError, ValueError, msgspec.DecodeError):
        return "another process"
