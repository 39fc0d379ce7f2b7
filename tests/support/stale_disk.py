"""A disk whose file handles go stale, as those of a network file system whose server came back as another one."""

from __future__ import annotations

import errno
import os

from tests.support.failing_disk import FailingDisk


class StaleDisk(FailingDisk):
    """After `go_stale` no handle opened before is of use ever again; while it is sick none can be opened either."""

    def __init__(self) -> None:
        super().__init__()
        self.sick = False
        self._open: set[int] = set()
        self._stale: set[int] = set()

    def go_stale(self) -> None:
        self.sick = True
        self._stale |= self._open

    def mend(self) -> None:
        super().mend()
        self.sick = False

    def open(self, path, flags):
        if self.sick:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        fd = super().open(path, flags)
        self._open.add(fd)
        self._stale.discard(fd)
        return fd

    def close(self, fd):
        self._open.discard(fd)
        stale = fd in self._stale
        super().close(fd)
        if stale:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def write(self, fd, data, position):
        self._check_handle(fd)
        super().write(fd, data, position)

    def write_all(self, fd, parts, position):
        self._check_handle(fd)
        super().write_all(fd, parts, position)

    def sync_data(self, fd):
        self._check_handle(fd)
        super().sync_data(fd)

    def sync(self, fd):
        self._check_handle(fd)
        super().sync(fd)

    def truncate(self, fd, length):
        self._check_handle(fd)
        super().truncate(fd, length)

    def _check_handle(self, fd: int) -> None:
        if fd in self._stale:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
