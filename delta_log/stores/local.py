"""A directory as a store: complete files only, put-if-absent by link(2), every step synced."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import stat
import threading
import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pyarrow as pa

from delta_log.model.errors import OutcomeUnknown, StorageRefused, refusal_of
from delta_log.runtime.disk_room import DiskRoom
from delta_log.runtime.file_modes import FILE_MODE
from delta_log.runtime.gil import yield_gil
from delta_log.runtime.syscalls import Disk, Probe, make_directories, no_probe
from delta_log.stores.protocol import Blob, Entry

STAGING: Final = "journal/staging"
#: Staged files older than this are abandoned.
LEFTOVER_MS: Final = 24 * 3_600_000
_ABSENT: Final = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
#: Errors with which a system surely has not created the name; with any other it may have.
_SURELY_NOT: Final = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EMLINK,
        errno.ENAMETOOLONG,
        errno.ENOENT,
        errno.ENOSPC,
        errno.ENOTDIR,
        errno.EPERM,
        errno.EROFS,
        errno.EXDEV,
    }
)


class LocalStore:
    """Store in a directory: blobs are staged, synced, then linked or renamed, and their directory is synced."""

    def __init__(
        self, root: Path, *, disk: Disk | None = None, probe: Probe = no_probe, room: DiskRoom | None = None
    ) -> None:
        self._root = root.absolute()
        self._room = room or DiskRoom()
        self._disk = disk or Disk()
        self._at = probe
        self._life = uuid.uuid4().hex
        self._names = itertools.count()
        self._prepared: set[Path] = set()
        self._preparing = threading.Lock()

    @property
    def location(self) -> str:
        return str(self._root)

    def create(self, path: str, data: Blob) -> bool:
        target = self._root / path
        staged, _ = self._stage(path, (data,))
        try:
            try:
                self._disk.link(staged, str(target))
            except FileExistsError:
                self._sync_name(target)
                return False
            except OSError as error:
                self._forget(target.parent)
                self._room.refused(error)
                raise _said_no_or_nothing(path, error) from error
            self._at("store.linked")
            self._sync_name(target)
            return True
        finally:
            self._discard(staged)

    def put(self, path: str, data: Blob) -> None:
        self.put_parts(path, (data,))

    def put_parts(self, path: str, parts: Iterable[Blob]) -> int:
        target = self._root / path
        staged, size = self._stage(path, parts)
        try:
            self._disk.rename(staged, str(target))
        except OSError as error:
            self._discard(staged)
            self._forget(target.parent)
            self._room.refused(error)
            raise _said_no_or_nothing(path, error) from error
        self._at("store.renamed")
        self._sync_name(target)
        return size

    def read(self, path: str) -> bytes:
        with _said_plainly(path):
            return (self._root / path).read_bytes()

    def open_input(self, path: str) -> pa.NativeFile:
        """Open for reading by system calls, not mapped: a bad sector under a mapping would kill the process."""
        return pa.OSFile(str(self._root / path), "rb")

    def stat(self, path: str) -> Entry | None:
        try:
            with _said_plainly(path):
                found = (self._root / path).stat()
        except FileNotFoundError:
            return None
        if stat.S_ISDIR(found.st_mode):
            return None
        return Entry(path.rpartition("/")[2], found.st_size, found.st_mtime_ns // 1_000_000)

    def list(self, directory: str) -> list[Entry]:
        entries: list[Entry] = []
        try:
            with _said_plainly(directory), os.scandir(self._root / directory) as found:
                for item in yield_gil(found):
                    with suppress(FileNotFoundError):
                        known, below = item.stat(), item.is_dir()
                        modified = known.st_mtime_ns // 1_000_000
                        entries.append(Entry(item.name, 0 if below else known.st_size, modified, below))
        except FileNotFoundError:
            return []
        return sorted(entries, key=lambda entry: entry.name)

    def settle(self, directory: str) -> None:
        with _said_plainly(directory):
            self._disk.sync_directory(str(self._root / directory))

    def delete(self, path: str) -> None:
        with suppress(FileNotFoundError), _said_plainly(path):
            self._disk.unlink(str(self._root / path))

    def delete_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_directory(self, directory: str) -> None:
        """Rename the directory away before deleting its content: a crash leaves all of it or nothing."""
        target = self._root / directory
        if not target.is_dir():
            return
        aside = self._root / STAGING / self._fresh_name()
        with _said_plainly(directory):
            self._prepare(aside.parent)
            self._disk.rename(str(target), str(aside))
        self._sync_name(target)
        self._forget(target)
        shutil.rmtree(aside, ignore_errors=True)

    def now_ms(self) -> int:
        probe = self._root / STAGING / f"clock-{self._fresh_name()}"
        with _said_plainly("the clock of the store"):
            self._prepare(probe.parent)
            probe.touch(FILE_MODE)
            try:
                return probe.stat().st_mtime_ns // 1_000_000
            finally:
                probe.unlink(missing_ok=True)

    def _stage(self, path: str, parts: Iterable[Blob]) -> tuple[str, int]:
        """Write a synced file outside all tables, where no reader lists it; returns its path and size."""
        self._room.check_open(path)
        staged = self._root / STAGING / self._fresh_name()
        try:
            self._prepare(staged.parent)
            self._prepare((self._root / path).parent)
            size = self._write_synced(str(staged), _told_apart(parts))
        except OSError as error:
            self._forget(staged.parent)
            self._discard(str(staged))
            self._room.refused(error)
            raise refusal_of(path, error) from error
        except _PartsFailedError as failed:
            self._discard(str(staged))
            raise failed.why from None
        self._at("store.staged")
        return str(staged), size

    def _fresh_name(self) -> str:
        """A name unique to this store object, even if others stage files here."""
        return f"{self._life}-{next(self._names)}"

    def _prepare(self, directory: Path) -> None:
        """Make a directory and its parents, and make their names durable.

        Existing names are synced too, once: the process that made them may have died before its sync.
        """
        if directory in self._prepared:
            return
        if directory == self._root:
            make_directories(self._disk, directory)
        else:
            self._prepare(directory.parent)
            with suppress(FileExistsError):
                self._disk.make_directory(str(directory))
            self._disk.sync_directory(str(directory.parent))
        with self._preparing:
            self._prepared.add(directory)

    def _forget(self, directory: Path) -> None:
        """Drop a directory and all below it from the prepared ones, as they may be gone."""
        with self._preparing:
            self._prepared = {kept for kept in self._prepared if kept != directory and directory not in kept.parents}

    def _write_synced(self, staged: str, parts: Iterable[Blob]) -> int:
        fd = self._disk.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        size = 0
        try:
            for part in parts:
                view = memoryview(part)
                self._disk.write(fd, view, size)
                size += len(view)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)
        return size

    def _sync_name(self, target: Path) -> None:
        try:
            self._disk.sync_directory(str(target.parent))
        except OSError as error:
            raise OutcomeUnknown(str(target.relative_to(self._root)), error) from error

    def _discard(self, staged: str) -> None:
        with suppress(OSError):
            self._disk.unlink(staged)


class _PartsFailedError(Exception):
    """The source of the parts failed before its end."""

    def __init__(self, why: BaseException) -> None:
        super().__init__()
        self.why = why


def _told_apart(parts: Iterable[Blob]) -> Iterator[Blob]:
    """Wrap failures of the parts' source, to distinguish them from failures of the disk."""
    try:
        yield from parts
    except GeneratorExit:
        raise
    except BaseException as why:
        raise _PartsFailedError(why) from why


def _said_no_or_nothing(path: str, error: OSError) -> StorageRefused | OutcomeUnknown:
    """The error for a name that could not be created: refused for certain, or of unknown outcome."""
    return refusal_of(path, error) if error.errno in _SURELY_NOT else OutcomeUnknown(path, error)


def delete_leftovers(root: Path, now_ms: int, *, after_ms: int = LEFTOVER_MS) -> bool:
    """Delete staged files that a crash left, if older than any work in progress; True if any were deleted.

    With a shorter `after_ms` they may be in progress: then that write is refused, and retried.
    """
    deleted = False
    with suppress(OSError), os.scandir(root / STAGING) as found:
        for item in found:
            if now_ms - item.stat().st_mtime_ns // 1_000_000 <= after_ms:
                continue
            if item.is_dir():
                shutil.rmtree(item.path, ignore_errors=True)
            else:
                os.unlink(item.path)
            deleted = deleted or not os.path.lexists(item.path)
    return deleted


@contextmanager
def _said_plainly(path: str) -> Generator[None]:
    """Translate system errors to a store's two errors: the blob is absent, or the store refuses."""
    try:
        yield
    except _ABSENT as error:
        raise FileNotFoundError(path) from error
    except OSError as error:
        raise refusal_of(path, error) from error
