"""A journal in memory, for the life of the object: an acknowledged group is accepted, not durable."""

from __future__ import annotations

from collections.abc import Sequence

from delta_log.journal.group_format import Frame, Payload, Place, checksum
from delta_log.journal.protocol import Recovered
from delta_log.journal.segment_scan import FoundFrame


class MemoryJournal:
    """Journal in memory; each group is a segment of its own. Recovery returns the unreleased groups."""

    kept_segments = 32
    copied_segments = 1

    def __init__(self) -> None:
        self.doubt: str | None = None
        self.mended, self.mended_at = 0, float("-inf")
        self.epoch = 0
        self._groups: dict[tuple[int, int], list[tuple[Frame, bytes]]] = {}
        self._number = 0
        self._newest: tuple[int, int] | None = None
        self.aside: dict[tuple[int, int], list[tuple[Frame, bytes]]] = {}

    def recover(self) -> Recovered:
        found = Recovered(segments=len(self._groups))
        for (epoch, number), group in self._groups.items():
            for index, (frame, payload) in enumerate(group):
                sound = checksum(payload) == frame.crc
                found.frames.append(FoundFrame(frame, Place(epoch, number, index, len(payload)), sound))
                found.size += len(payload)
        self._number, self._newest = 0, None
        return found

    def pace(self) -> None:
        """Do not wait: groups cost nothing here."""

    def append(self, frames: Sequence[Frame], payloads: Sequence[Payload]) -> list[Place]:
        key = (self.epoch, self._number)
        group = [(frame, bytes(payload)) for frame, payload in zip(frames, payloads, strict=True)]
        self._number += 1
        self._newest = key
        self._groups[key] = group
        return [Place(*key, index, len(payload)) for index, payload in enumerate(payloads)]

    def read(self, place: Place) -> bytes:
        group = self._groups.get((place.epoch, place.segment))
        if group is None:
            raise FileNotFoundError(f"journal segment {(place.epoch, place.segment)} was released")
        return group[place.position][1]

    def segments(self) -> list[tuple[int, int]]:
        """The segments but the newest, which counts as open: the writer has not noted yet which tables need it."""
        return [key for key in list(self._groups) if key != self._newest]

    def release(self, segment: tuple[int, int], *, aside: bool = False) -> None:
        if segment == self._newest:
            return
        group = self._groups.pop(segment, None)
        if aside and group is not None:
            self.aside[segment] = group

    def give_back(self) -> None:
        """Do nothing: no space is reserved."""

    def close(self, *, empty: bool) -> None:
        if empty:
            self._groups.clear()
