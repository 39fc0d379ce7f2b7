"""The folder for the Unix socket of a job's own server: the job's user alone may enter it, and it goes with the job."""

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
#: Of a socket's path, which has room for 103 bytes, what the folder of temporary files may take.
_LONGEST: Final = 70
_SHORT: Final = Path("/tmp")  # noqa: S108 - a folder of the user's own is made in it
#: What killed jobs left is looked for when it is so old that none of them is just beginning.
_OLD_S: Final = 24 * 3600


@contextlib.contextmanager
def socket_folder() -> Generator[Path]:
    """The path for the socket."""
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
