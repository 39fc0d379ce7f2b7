"""What the log asks of a place that keeps named blobs.

Paths are relative to the store, with `/` between their parts. A blob is whole or absent, never half there: what
`create` and `put` accepted survives a power cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

Blob = bytes | memoryview | pa.Buffer


@dataclass(frozen=True, slots=True)
class Entry:
    """One name of a listing. A directory has no size."""

    name: str
    size: int
    modified_ms: int
    is_directory: bool = False


class Store(Protocol):
    """A place for blobs.

    Errors: FileNotFoundError for what is not there, StorageRefused where surely nothing was stored, OutcomeUnknown
    where that cannot be said.
    """

    @property
    def location(self) -> str:
        """How people and other readers of the tables name this place."""
        ...

    def create(self, path: str, data: Blob) -> bool:
        """Store under a name that must be free; False when it was taken, and then nothing is changed."""
        ...

    def put(self, path: str, data: Blob) -> None:
        """Store under a name, in place of what may be there."""
        ...

    def put_parts(self, path: str, parts: Iterable[Blob]) -> int:
        """The same for what comes part by part and need not fit into memory; returns its bytes.

        Whatever keeps the parts from coming to their end keeps the blob from being stored.
        """
        ...

    def read(self, path: str) -> bytes: ...

    def open_input(self, path: str) -> pa.NativeFile:
        """A blob for random reading."""
        ...

    def stat(self, path: str) -> Entry | None: ...

    def list(self, directory: str) -> list[Entry]:
        """The names right below a directory, sorted; none when it does not exist."""
        ...

    def settle(self, directory: str) -> None:
        """Make durable the names right below a directory that somebody gave there and may have died before that."""
        ...

    def delete(self, path: str) -> None:
        """Remove a blob; one that is gone already is no error."""
        ...

    def delete_all(self, paths: Sequence[str]) -> None:
        """The same for many."""
        ...

    def delete_directory(self, directory: str) -> None:
        """Remove a directory with all that is below it."""
        ...

    def now_ms(self) -> int:
        """The store's own clock: what it would stamp a blob with that is written now."""
        ...
