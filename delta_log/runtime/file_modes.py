"""Modes of the files of a root: its owner writes, the owner's group reads, other users do neither.

A root is made so; one that exists keeps the modes that it has, and what is wider is said. It must not change a mode.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["DIRECTORY_MODE", "FILE_MODE", "PRIVATE_MODE", "find_wider"]

#: A umask that is stricter takes its part away.
DIRECTORY_MODE: Final = 0o750
FILE_MODE: Final = 0o640
#: Of what the owner alone ever needs.
PRIVATE_MODE: Final = 0o600
#: Others could replace what is in these, though they cannot come by the root's own door.
_INSIDE: Final = ("lakelog.json", "journal", "topics", "writers")
_WRITING_GROUP: Final = 0o020


def find_wider(location: str) -> str | None:
    """What is wider than a root is made, and what to do about it; None where nothing is, and for a bucket."""
    if "://" in location:
        return None
    root = Path(location).absolute()
    for path, mode in _wider(root):
        return f"{path} has the mode {mode:04o}, with which {_whom(mode)}: chmod -R g-w,o-rwx {root}"
    return None


def _wider(root: Path) -> Iterator[tuple[Path, int]]:
    """A user who may not pass the root's own folder reaches nothing below it, whatever modes there are."""
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
