"""The few system calls that durability relies on.

All data that must survive a power cut is written through a `Disk`, so that a test can replace it by one that
remembers synced data and loses the rest. A `Probe` is called with the name of each step at which a crash could occur.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from delta_log.runtime.file_modes import DIRECTORY_MODE, FILE_MODE

Probe = Callable[[str], None]

#: Half of the number of parts that the system accepts in one call.
_MOST_PARTS: Final = 512
#: Unit of `st_blocks`.
_SECTOR: Final = 512
_PART: Final = 1024 * 1024
#: Errors that mean that the system cannot reserve blocks, not that there are none.
_CANNOT_RESERVE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.ENODEV})


def no_probe(_step: str) -> None:
    """Do nothing: the default probe."""


class Disk:
    """The real disk."""

    def open(self, path: str, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC, FILE_MODE)

    def close(self, fd: int) -> None:
        os.close(fd)

    def write(self, fd: int, data: bytes | memoryview, position: int) -> None:
        """Write all data: a short write is continued."""
        view = memoryview(data)
        while view:
            done = os.pwrite(fd, view, position)
            position += done
            view = view[done:]

    def write_all(self, fd: int, parts: Sequence[bytes | memoryview], position: int) -> None:
        """Write the parts in sequence, with as few calls as the system allows."""
        for first in range(0, len(parts), _MOST_PARTS):
            some = parts[first : first + _MOST_PARTS]
            total = sum(map(len, some))
            if os.pwritev(fd, some, position) != total:
                self.write(fd, b"".join(some), position)
            position += total

    def sync_data(self, fd: int) -> None:
        os.fdatasync(fd)

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def allocate(self, fd: int, length: int) -> None:
        """Allocate `length` bytes; random bytes are written if the system reserves no blocks, or stores no zeros."""
        reserve = getattr(os, "posix_fallocate", None)
        if reserve is not None:
            try:
                reserve(fd, 0, length)
            except OSError as error:
                if error.errno not in _CANNOT_RESERVE:
                    raise
            else:
                os.fsync(fd)
                if os.fstat(fd).st_blocks * _SECTOR >= length // 2:
                    return
        for position in range(0, length, _PART):
            self.write(fd, os.urandom(min(_PART, length - position)), position)

    def free_bytes(self, path: str) -> tuple[int, int]:
        """Free bytes for this process on the file system of `path`, and its total size."""
        found = os.statvfs(path)
        free = found.f_bfree if os.geteuid() == 0 else found.f_bavail
        return free * found.f_frsize, found.f_blocks * found.f_frsize

    def truncate(self, fd: int, length: int) -> None:
        os.ftruncate(fd, length)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path, DIRECTORY_MODE)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def make_directories(disk: Disk, path: Path) -> None:
    """Make `path` and its missing parents; each new entry is synced in its directory."""
    if path.is_dir():
        return
    make_directories(disk, path.parent)
    try:
        disk.make_directory(str(path))
    except FileExistsError:
        return
    disk.sync_directory(str(path.parent))
