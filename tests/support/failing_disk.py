"""A disk that refuses on command."""

import errno
import os

from delta_log.disk import Disk


class FailingDisk(Disk):
    """Raises at the chosen calls; everything else is real."""

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}

    def fail(self, *names: str, code: int = errno.EIO) -> None:
        self.failing |= dict.fromkeys(names, code)

    def mend(self) -> None:
        self.failing.clear()

    def _check(self, name: str) -> None:
        if name in self.failing:
            raise OSError(self.failing[name], os.strerror(self.failing[name]))

    def open(self, path, flags):
        if flags & os.O_CREAT:
            self._check("create")
        return super().open(path, flags)

    def write(self, fd, data, position):
        self._check("write")
        super().write(fd, data, position)

    def write_all(self, fd, parts, position):
        if "half" in self.failing:
            whole = b"".join(parts)
            super().write(fd, whole[: len(whole) // 2], position)
            self._check("half")
        self._check("write_all")
        super().write_all(fd, parts, position)

    def sync_data(self, fd):
        self._check("sync_data")
        super().sync_data(fd)

    def sync(self, fd):
        self._check("sync")
        super().sync(fd)

    def truncate(self, fd, length):
        self._check("truncate")
        super().truncate(fd, length)

    def rename(self, source, target):
        self._check("rename")
        super().rename(source, target)

    def sync_directory(self, path):
        self._check("sync_directory")
        super().sync_directory(path)
