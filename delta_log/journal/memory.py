"""A journal that lives as long as the object: acknowledged means accepted."""

from __future__ import annotations

from collections.abc import Sequence

from delta_log.frames import Frame, Place, checksum
from delta_log.journal.protocol import Payload, Recovered
from delta_log.journal_scan import FoundFrame


class MemoryJournal:
    """Each group is a segment of its own. Opened again, it gives back what was not released."""

    def __init__(self) -> None:
        self.epoch = 0
        self._groups: dict[tuple[int, int], list[tuple[Frame, bytes]]] = {}
        self._number = 0
        self.aside: dict[tuple[int, int], list[tuple[Frame, bytes]]] = {}

    def recover(self) -> Recovered:
        found = Recovered(segments=len(self._groups))
        for (epoch, number), group in self._groups.items():
            for index, (frame, payload) in enumerate(group):
                sound = checksum(payload) == frame.crc
                found.frames.append(FoundFrame(frame, Place(epoch, number, index, len(payload)), sound))
                found.size += len(payload)
        self._number = 0
        return found

    def append(self, frames: Sequence[Frame], payloads: Sequence[Payload]) -> list[Place]:
        key = (self.epoch, self._number)
        self._number += 1
        self._groups[key] = [(frame, bytes(payload)) for frame, payload in zip(frames, payloads, strict=True)]
        return [Place(*key, index, len(payload)) for index, payload in enumerate(payloads)]

    def read(self, place: Place) -> bytes:
        return self._groups[place.epoch, place.segment][place.position][1]

    def segments(self) -> list[tuple[int, int]]:
        return list(self._groups)

    def release(self, segment: tuple[int, int], *, aside: bool = False) -> None:
        group = self._groups.pop(segment, None)
        if aside and group is not None:
            self.aside[segment] = group

    def close(self, *, empty: bool) -> None:
        if empty:
            self._groups.clear()
