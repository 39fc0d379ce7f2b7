"""Folder for the Unix socket of a job's own server: only the job's user may enter it, and the job deletes it."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Final

__all__ = ["socket_folder"]

_PREFIX: Final = "lakelog-job-"
_SOCKET: Final = "server"
#: Maximum length of the temporary folder's path, as the path of a socket is limited to 103 bytes.
_LONGEST: Final = 70
_SHORT: Final = Path("/tmp")  # noqa: S108 - a private folder is made in it
#: Age from which leftovers of killed jobs are removed, so that no job that is just starting is affected.
_OLD_S: Final = 24 * 3600


@contextlib.contextmanager
def socket_folder() -> Generator[Path]:
    """Yield the path for the socket."""
    where = Path(tempfile.gettempdir())
    where = where if len(bytes(where)) <= _LONGEST else _SHORT
    _tidy(where, time.time() - _OLD_S)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=where) as folder:
        yield Path(folder) / _SOCKET


def _tidy(where: Path, made_before: float) -> None:
    for folder in where.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.stat().st_mtime < made_before and _is_deaf(folder / _SOCKET):
                (folder / _SOCKET).unlink(missing_ok=True)
                folder.rmdir()


def _is_deaf(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) != 0
