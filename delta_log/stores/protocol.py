"""The protocol of a store of named blobs.

Paths are relative to the store, with `/` between their parts. A blob is whole or absent, never partial: once `create`
or `put` returned, it survives a power cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

Blob = bytes | memoryview | pa.Buffer


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a listing. A directory has no size."""

    name: str
    size: int
    modified_ms: int
    is_directory: bool = False


class Store(Protocol):
    """A store of blobs.

    Errors: FileNotFoundError for an absent blob, StorageRefused if certainly nothing was stored, OutcomeUnknown if
    that is uncertain.
    """

    @property
    def location(self) -> str:
        """The store's location, as users and other readers of the tables write it."""
        ...

    def create(self, path: str, data: Blob) -> bool:
        """Store under a name that must be free; False if it is taken, and then nothing is changed."""
        ...

    def put(self, path: str, data: Blob) -> None:
        """Store under a name, replacing an existing blob."""
        ...

    def put_parts(self, path: str, parts: Iterable[Blob]) -> int:
        """Like `put`, for a blob in parts that need not fit into memory; returns its size.

        If the parts' iterator fails, the blob is not stored.
        """
        ...

    def read(self, path: str) -> bytes: ...

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a blob for random reading."""
        ...

    def stat(self, path: str) -> Entry | None: ...

    def list(self, directory: str) -> list[Entry]:
        """The entries directly below a directory, sorted; empty if it does not exist."""
        ...

    def settle(self, directory: str) -> None:
        """Sync the names directly below a directory, as the process that made them may have died before its sync."""
        ...

    def delete(self, path: str) -> None:
        """Remove a blob; an absent one is no error."""
        ...

    def delete_all(self, paths: Sequence[str]) -> None:
        """Remove many blobs."""
        ...

    def delete_directory(self, directory: str) -> None:
        """Remove a directory with all that is below it."""
        ...

    def now_ms(self) -> int:
        """The store's own clock: the time stamp of a blob written now."""
        ...
