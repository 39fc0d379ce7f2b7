"""A disk that refuses on command."""

import errno
import os

from delta_log.runtime.syscalls import Disk


class FailingDisk(Disk):
    """Raises at the chosen calls: before they are made or, as if the answer were lost, after. The rest is real."""

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}
        self.failing_after: dict[str, int] = {}

    def fail(self, *names: str, code: int = errno.EIO, after: bool = False) -> None:
        failing = self.failing_after if after else self.failing
        failing |= dict.fromkeys(names, code)

    def mend(self) -> None:
        self.failing.clear()
        self.failing_after.clear()

    def _check(self, name: str, *, after: bool = False) -> None:
        failing = self.failing_after if after else self.failing
        if name in failing:
            raise OSError(failing[name], os.strerror(failing[name]))

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
        self._check("write_all", after=True)

    def sync_data(self, fd):
        self._check("sync_data")
        super().sync_data(fd)
        self._check("sync_data", after=True)

    def sync(self, fd):
        self._check("sync")
        super().sync(fd)

    def allocate(self, fd, length):
        self._check("allocate")
        super().allocate(fd, length)

    def truncate(self, fd, length):
        self._check("truncate")
        super().truncate(fd, length)

    def link(self, source, target):
        self._check("link")
        super().link(source, target)
        self._check("link", after=True)

    def unlink(self, path):
        self._check("unlink")
        super().unlink(path)
        self._check("unlink", after=True)

    def rename(self, source, target):
        self._check("rename")
        super().rename(source, target)
        self._check("rename", after=True)

    def sync_directory(self, path):
        self._check("sync_directory")
        super().sync_directory(path)
        self._check("sync_directory", after=True)
