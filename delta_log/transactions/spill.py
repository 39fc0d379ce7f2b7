"""The spill of a large open transaction: holds its records in an unnamed file until the decision.

The file is never reopened. When the process ends, even by a crash, the system frees it: undecided transactions are
forgotten. So it is never synced. And another program finds no file to open.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import uuid
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final

from delta_log.journal.group_format import checksum
from delta_log.model.errors import StorageRefused
from delta_log.records.request import SpilledRows
from delta_log.runtime.file_modes import PRIVATE_MODE
from delta_log.transactions.buffered_records import HeldRequest, Slice

#: `O_EXCL` prevents that the file is given a name later.
_UNNAMED: Final = getattr(os, "O_TMPFILE", 0) | os.O_EXCL


class Spill:
    """The spill of one transaction. Used by one thread at a time."""

    def __init__(self, directory: Path | None) -> None:
        """Create the file in a directory of the root, or without one in the system's temporary directory."""
        try:
            self._file = FileIO(open_unnamed(directory or Path(tempfile.gettempdir())), "r+")
        except OSError as error:
            raise StorageRefused("the spill of a transaction", error) from error
        self._end = 0

    def add(self, data: bytes) -> int:
        """Append data; returns its position. The rest of a failed add is overwritten."""
        view, position = memoryview(data), self._end
        try:
            while view:
                done = os.pwrite(self._file.fileno(), view, position)
                position, view = position + done, view[done:]
        except OSError as error:
            raise StorageRefused("the spill of a transaction", error) from error
        begun, self._end = self._end, position
        return begun

    def view(self) -> memoryview:
        """The whole content, mapped: pages are read on use and take no memory of the process."""
        if not self._end:
            return memoryview(b"")
        try:
            return memoryview(mmap.mmap(self._file.fileno(), self._end, access=mmap.ACCESS_READ))
        except OSError as error:
            raise StorageRefused("the spill of a transaction", error) from error

    def close(self) -> None:
        self._file.close()


def open_unnamed(directory: Path) -> int:
    """Open a file for this user only; if the file system cannot do without a name, the name is removed at once."""
    if _UNNAMED != os.O_EXCL:
        with suppress(OSError):
            return os.open(directory, os.O_RDWR | os.O_CLOEXEC | _UNNAMED, PRIVATE_MODE)
    path = directory / f"spill-{uuid.uuid4().hex}"
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL, PRIVATE_MODE)
    try:
        path.unlink()
    except OSError:
        os.close(fd)
        raise
    return fd


def spill_requests(spill: Spill, requests: Sequence[HeldRequest]) -> list[tuple[HeldRequest, list[Slice]]]:
    """Write requests to the spill in one step; on failure they are unchanged."""
    parts = [(held, part) for held in requests for part in held.request.parts]
    position = spill.add(b"".join([part.payload for _, part in parts]))
    places: dict[int, tuple[HeldRequest, list[Slice]]] = {id(held): (held, []) for held in requests}
    for held, part in parts:
        rows, length = SpilledRows(len(part.rows), checksum(part.payload)), len(part.payload)
        places[id(held)][1].append(Slice(part.partition, part.kind, rows, position, length))
        position += length
    return list(places.values())
