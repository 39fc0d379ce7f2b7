"""The ballast of a directory: files that hold room and nothing else, to be given back on a full disk.

    journal/ballast-<n>     a slice; its blocks are allocated, never a hole

It knows files; it must not know when one is to be made or given back. Nothing rests on what is in them, so a death at
any step leaves nothing to mend: what is there is counted by its sizes.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from delta_log.runtime.fullness import SLICES, slice_of
from delta_log.runtime.syscalls import Disk, Probe, make_directories, no_probe

NAME: Final = "ballast-"
#: What `st_blocks` counts in.
_SECTOR: Final = 512


class Ballast:
    """For one thread at a time."""

    def __init__(self, directory: Path, *, disk: Disk | None = None, probe: Probe = no_probe) -> None:
        self._directory = directory
        self._disk = disk or Disk()
        self._at = probe

    @property
    def held(self) -> int:
        """How much room it holds now."""
        return sum(self._sizes().values())

    def drop_holes(self) -> None:
        """A copy of a root may have left the zeros out: such a file holds no room."""
        for path in self._sizes():
            found = os.stat(path)
            if found.st_blocks * _SECTOR < found.st_size // 2:
                self._disk.unlink(path)

    def give_back(self, size: int) -> int:
        """Let go of at least so many bytes, the last files first; returns how many it were."""
        given = 0
        for path, held in sorted(self._sizes().items(), reverse=True):
            if given >= size:
                break
            self._disk.unlink(path)
            self._at("ballast.given_back")
            given += held
        return given

    def fill(self, size: int) -> None:
        """Have so many bytes, in equal files; OSError where there is no room for them, and nothing was made then."""
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
