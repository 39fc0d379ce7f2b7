"""Modes of the files of a root: its owner writes, the owner's group reads, other users do neither.

A root is created with these; an existing one keeps its modes, and wider ones are reported. It must not change a mode.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["DIRECTORY_MODE", "FILE_MODE", "PRIVATE_MODE", "find_wider"]

#: A stricter umask narrows these.
DIRECTORY_MODE: Final = 0o750
FILE_MODE: Final = 0o640
#: For files that only the owner needs.
PRIVATE_MODE: Final = 0o600
#: Entries whose content other users could replace, even without write access to the root directory itself.
_INSIDE: Final = ("lakelog.json", "journal", "topics", "writers")
_WRITING_GROUP: Final = 0o020


def find_wider(location: str) -> str | None:
    """Describe a mode wider than that of a new root, with the remedy; None if there is none, and for a bucket."""
    if "://" in location:
        return None
    root = Path(location).absolute()
    for path, mode in _wider(root):
        return f"{path} has the mode {mode:04o}, with which {_whom(mode)}: chmod -R g-w,o-rwx {root}"
    return None


def _wider(root: Path) -> Iterator[tuple[Path, int]]:
    """Paths with wider modes. Other users may not enter the root, so below it only group write access counts."""
    with suppress(OSError):
        mode = _mode_of(root)
        if mode & ~DIRECTORY_MODE & 0o777:
            yield root, mode
    for path in (root / name for name in _INSIDE):
        with suppress(OSError):
            mode = _mode_of(path)
            if mode & _WRITING_GROUP:
                yield path, mode


def _mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _whom(mode: int) -> str:
    if mode & 0o002:
        return "every user of this machine may change the log"
    if mode & 0o020:
        return "its group may change the log"
    return "every user of this machine may look into the log"
