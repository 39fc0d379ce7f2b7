"""The ballast of a directory: files that only reserve space, to be given back on a full disk.

    journal/ballast-<n>     a slice; its blocks are allocated, never a hole

It knows files; it must not know when one is to be made or given back. Their content is irrelevant, so a crash at any
step leaves nothing to repair: the ballast is counted by the sizes of its files.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from delta_log.runtime.fullness import SLICES, slice_of
from delta_log.runtime.syscalls import Disk, Probe, make_directories, no_probe

NAME: Final = "ballast-"
#: Unit of `st_blocks`.
_SECTOR: Final = 512


class Ballast:
    """The ballast files of a directory; for one thread at a time."""

    def __init__(self, directory: Path, *, disk: Disk | None = None, probe: Probe = no_probe) -> None:
        self._directory = directory
        self._disk = disk or Disk()
        self._at = probe

    @property
    def held(self) -> int:
        """Bytes that the ballast holds now."""
        return sum(self._sizes().values())

    def drop_holes(self) -> None:
        """Delete sparse ballast files, which hold no space: copying a root may have made them so."""
        for path in self._sizes():
            found = os.stat(path)
            if found.st_blocks * _SECTOR < found.st_size // 2:
                self._disk.unlink(path)

    def give_back(self, size: int) -> int:
        """Free at least `size` bytes, the last files first; returns the bytes freed."""
        given = 0
        for path, held in sorted(self._sizes().items(), reverse=True):
            if given >= size:
                break
            self._disk.unlink(path)
            self._at("ballast.given_back")
            given += held
        return given

    def fill(self, size: int) -> None:
        """Bring the ballast to `size` bytes, in equal files; OSError if there is no space, and then none is added."""
        make_directories(self._disk, self._directory)
        wanted = {str(self._directory / f"{NAME}{index}"): slice_of(size) for index in range(SLICES if size else 0)}
        sizes = self._sizes()
        for path in sizes.keys() - wanted.keys():
            self._disk.unlink(path)
        made: list[str] = []
        try:
            for path, length in wanted.items():
                if sizes.get(path) != length:
                    made.append(path)
                    self._make(path, length)
                    self._at("ballast.made")
        except OSError:
            for path in made:
                with suppress(OSError):
                    self._disk.unlink(path)
            raise

    def _make(self, path: str, length: int) -> None:
        fd = self._disk.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            self._disk.allocate(fd, length)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def _sizes(self) -> dict[str, int]:
        sizes: dict[str, int] = {}
        with suppress(FileNotFoundError), os.scandir(self._directory) as found:
            for item in found:
                if item.name.startswith(NAME):
                    with suppress(FileNotFoundError):
                        sizes[item.path] = item.stat().st_size
        return sizes
