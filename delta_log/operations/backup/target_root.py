"""The target of a copy as a root, for its completion: no server can open it before.

It has no `lakelog.json` yet, so no server starts on it. The start that completes it sees one here, and as its
journal the one that was read from the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delta_log.journal import Recovered
from delta_log.journal.group_format import Frame, Place
from delta_log.journal.protocol import Payload
from delta_log.model.errors import ReadOnly
from delta_log.operations.check.read_journal import JournalLook
from delta_log.root.root import ROOT_FILE, Root, RootInfo, encode_info


class CopiedStore:
    """A store with the root file of a complete root."""

    def __init__(self, root: Root, info: RootInfo) -> None:
        self._store = root.store
        self._info = info

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, path: str) -> bytes:
        return encode_info(self._info) if path == ROOT_FILE else self._store.read(path)


class CopiedRoot:
    """A root under completion."""

    def __init__(self, root: Root, info: RootInfo, journal: JournalLook) -> None:
        self._root = root
        self._journal = journal
        self.store = CopiedStore(root, info)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._root, name)

    def hold(self) -> None:
        """No lock is needed: no other process can open it yet."""

    def let_go(self) -> None:
        """Do nothing: no lock is held."""

    def journal(self, _epoch: int) -> ReadJournal:
        return ReadJournal(self._journal)


class ReadJournal:
    """A journal that was read from the original, to be replayed once."""

    kept_segments = 1 << 30
    copied_segments = 1

    def __init__(self, look: JournalLook) -> None:
        self.doubt: str | None = None
        self.mended, self.mended_at = 0, float("-inf")
        self._look = look

    def recover(self) -> Recovered:
        return self._look.found

    def pace(self) -> None:
        """Do nothing: no write needs pacing."""

    def append(self, _frames: Sequence[Frame], _payloads: Sequence[Payload]) -> list[Place]:
        raise ReadOnly

    def read(self, place: Place) -> bytes:
        return self._look.read(place)

    def segments(self) -> list[tuple[int, int]]:
        return []

    def release(self, segment: tuple[int, int], *, aside: bool = False) -> None:
        """Do nothing: the segments are the original's."""

    def give_back(self) -> None:
        """Do nothing: no space is reserved."""

    def close(self, *, empty: bool) -> None:
        """Do nothing: nothing is open."""
