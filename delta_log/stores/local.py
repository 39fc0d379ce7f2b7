"""A directory as a store: complete files only, put-if-absent by link(2), every step synced."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from pathlib import Path

import pyarrow as pa

from delta_log.disk import Disk, Probe, make_directories, no_probe
from delta_log.errors import OutcomeUnknown, StorageRefused
from delta_log.stores.protocol import Blob, Entry

STAGING = "journal/staging"


class LocalStore:
    """Blobs are written aside, synced, then given their name, and the directory that names them is synced."""

    def __init__(self, root: Path, *, disk: Disk | None = None, probe: Probe = no_probe) -> None:
        self._root = root.absolute()
        self._disk = disk or Disk()
        self._at = probe
        self._names = itertools.count()
        self._made: set[Path] = set()

    @property
    def location(self) -> str:
        return str(self._root)

    def create(self, path: str, data: Blob) -> bool:
        target = self._root / path
        staged = self._stage(path, data)
        try:
            try:
                self._disk.link(staged, str(target))
            except FileExistsError:
                return False
            except OSError as error:
                raise StorageRefused(path, error) from error
            self._at("store.linked")
            self._sync_name(target)
            return True
        finally:
            self._discard(staged)

    def put(self, path: str, data: Blob) -> None:
        target = self._root / path
        staged = self._stage(path, data)
        try:
            self._disk.rename(staged, str(target))
        except OSError as error:
            self._discard(staged)
            raise StorageRefused(path, error) from error
        self._at("store.renamed")
        self._sync_name(target)

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.memory_map(str(self._root / path))

    def stat(self, path: str) -> Entry | None:
        try:
            found = (self._root / path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Entry(path.rpartition("/")[2], found.st_size, found.st_mtime_ns // 1_000_000)

    def list(self, directory: str) -> list[Entry]:
        entries: list[Entry] = []
        try:
            with os.scandir(self._root / directory) as found:
                for item in found:
                    try:
                        known = item.stat()
                    except FileNotFoundError:
                        continue
                    modified = known.st_mtime_ns // 1_000_000
                    entries.append(Entry(item.name, known.st_size, modified, item.is_dir()))
        except FileNotFoundError:
            return []
        return sorted(entries, key=lambda entry: entry.name)

    def delete(self, path: str) -> None:
        try:
            self._disk.unlink(str(self._root / path))
        except FileNotFoundError:
            return

    def delete_directory(self, directory: str) -> None:
        target = self._root / directory
        shutil.rmtree(target, ignore_errors=True)
        self._made = {made for made in self._made if made != target and target not in made.parents}

    def now_ms(self) -> int:
        probe = self._root / STAGING / f"clock-{os.getpid()}-{threading.get_ident()}"
        make_directories(self._disk, probe.parent)
        probe.touch()
        try:
            return probe.stat().st_mtime_ns // 1_000_000
        finally:
            probe.unlink(missing_ok=True)

    def _stage(self, path: str, data: Blob) -> str:
        """A synced file aside of every table, so that no reader can list it."""
        name = f"{os.getpid()}-{threading.get_ident()}-{next(self._names)}"
        staged = self._root / STAGING / name
        try:
            for directory in (staged.parent, (self._root / path).parent):
                if directory not in self._made:
                    make_directories(self._disk, directory)
                    self._made.add(directory)
            self._write_synced(str(staged), data)
        except OSError as error:
            self._discard(str(staged))
            raise StorageRefused(path, error) from error
        self._at("store.staged")
        return str(staged)

    def _write_synced(self, staged: str, data: Blob) -> None:
        fd = self._disk.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            self._disk.write(fd, memoryview(data), 0)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def _sync_name(self, target: Path) -> None:
        try:
            self._disk.sync_directory(str(target.parent))
        except OSError as error:
            raise OutcomeUnknown(str(target.relative_to(self._root)), error) from error

    def _discard(self, staged: str) -> None:
        try:
            self._disk.unlink(staged)
        except OSError:
            return
