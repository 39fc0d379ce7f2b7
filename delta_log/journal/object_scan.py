"""Scan of a journal of numbered objects, from their numbers and bytes alone. Pure.

    group   header, directory, payloads: as in a segment, but one object has one group and nothing else
    fence   the first object of a life: a group without frames; no writer of an earlier life can write behind it
    blind   a fence behind an unreadable object: it is marked, as it cannot repeat the ranges of that object
    void    a group without frames that takes the number of a group whose answer was lost, so that it cannot appear

An object is whole or absent, never half written: an unreadable one was damaged, and is reported. Its offsets are known
from the next object, which repeats them. If a void came too late, because the lost group was stored after all, the
next object marks that group as taken back.

Fences, voids, and groups that were taken back guard their numbers: if those were free again, a late write could take
one, in place of groups acknowledged since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from delta_log.journal.group_format import (
    HEADER_SIZE,
    Frame,
    GroupHeader,
    Place,
    RangeNote,
    checksum,
    decode_directory,
    decode_header,
    encode_directory,
    encode_header,
    notes_of,
)
from delta_log.journal.segment_scan import FoundFrame, Lost, find_frames

#: Kinds of an object, stored in its header's `index`, which has nothing to count here.
PLAIN: Final = 0
TAKES_BACK: Final = 1
FENCE: Final = 2
VOID: Final = 3
BLIND: Final = 4
#: A fence is recognised by its end, too, so that with a damaged header it does not count as a lost group.
_FENCE_END: Final = bytes.fromhex("6c6b6c2d66656e63652d9f3ac1770d5e")


@dataclass(frozen=True, slots=True)
class FoundObject:
    """A decoded object. `damaged`: only unimportant bytes of it are unreadable."""

    number: int
    kind: int
    epoch: int
    readable: bool
    previous: Sequence[RangeNote] = ()
    frames: Sequence[FoundFrame] = ()
    damaged: bool = False

    @property
    def is_fence(self) -> bool:
        return self.kind in (FENCE, BLIND)

    @property
    def ranges(self) -> list[RangeNote]:
        return notes_of([found.frame for found in self.frames])


@dataclass(slots=True)
class JournalContent:
    frames: list[FoundFrame] = field(default_factory=list[FoundFrame])
    lost: list[Lost] = field(default_factory=list[Lost])
    damage: list[str] = field(default_factory=list[str])
    untraceable: list[str] = field(default_factory=list[str])


def object_name(number: int) -> str:
    return f"{number:020d}.grp"


def number_of(name: str) -> int | None:
    digits, dot, ending = name.partition(".")
    return int(digits) if dot and ending == "grp" and len(digits) == 20 and digits.isdecimal() else None  # noqa: PLR2004


def encode_object(
    number: int,
    kind: int,
    *,
    life: int,
    epoch: int,
    previous: Sequence[RangeNote],
    frames: Sequence[Frame] = (),
    payloads: Sequence[bytes | memoryview] = (),
) -> tuple[bytes, int]:
    """Returns the object's bytes, and the position of its payloads."""
    directory = encode_directory(list(previous), list(frames))
    size = sum(map(len, payloads))
    header = GroupHeader(life, epoch, number, 0, kind, number, 0, len(directory), checksum(directory), size)
    end = _FENCE_END if kind in (FENCE, BLIND) else b""
    return b"".join((encode_header(header), directory, *payloads, end)), HEADER_SIZE + len(directory)


def decode_object(number: int, data: bytes) -> FoundObject:
    view = memoryview(data)
    header = decode_header(view)
    if header is None or header.segment != number:
        return FoundObject(number, FENCE if data.endswith(_FENCE_END) else PLAIN, 0, readable=False)
    directory = decode_directory(header, view)
    if directory is None:
        return FoundObject(number, header.index, header.epoch, readable=False)
    frames = find_frames(view, 0, header, directory)
    damaged = header.index in (FENCE, BLIND) and not data.endswith(_FENCE_END)
    return FoundObject(number, header.index, header.epoch, True, directory.previous, frames, damaged)  # noqa: FBT003


def guards_of(objects: Iterable[FoundObject]) -> list[int]:
    """The numbers that must stay taken, in order of deletion: a group taken back before the object that marks it."""
    guards: list[int] = []
    for found in objects:
        guards += [found.number - 1] if found.kind == TAKES_BACK else []
        guards += [found.number] if found.kind != PLAIN else []
    return guards


def collect(objects: Iterable[FoundObject]) -> JournalContent:
    """Collect the content of the objects, in order; missing numbers were released."""
    content = JournalContent()
    waiting: FoundObject | None = None
    for found in objects:
        follows = waiting is not None and found.number == waiting.number + 1
        if waiting is not None:
            _take(content, waiting, found if follows else None)
        waiting = found
    if waiting is not None:
        _take(content, waiting, None)
    return content


def _take(content: JournalContent, found: FoundObject, behind: FoundObject | None) -> None:
    name = object_name(found.number)
    if not found.readable:
        content.damage.append(f"{name}: it cannot be read")
    elif found.damaged:
        content.damage.append(f"{name}: its end is not that of a fence")
    if behind is not None and behind.kind == TAKES_BACK:
        return
    if found.readable:
        content.frames += found.frames
        unsound = [each for each in found.frames if not each.sound]
        content.damage += [f"{name}: {_describe(each)}" for each in unsound]
        content.lost += [
            Lost(note, "its payload fails its checksum") for note in notes_of([each.frame for each in unsound])
        ]
    elif behind is not None and behind.readable and behind.kind != BLIND:
        content.lost += [Lost(note, "its group cannot be read") for note in behind.previous]
    elif not found.is_fence:
        content.untraceable.append(f"journal object {name}")


def _describe(found: FoundFrame) -> str:
    frame = found.frame
    return (
        f"the payload of {frame.topic}-{frame.partition}, offsets {frame.base_offset} to {frame.next_offset - 1}, "
        "fails its checksum"
    )


def places_of(epoch: int, number: int, position: int, payloads: Sequence[bytes | memoryview]) -> list[Place]:
    places: list[Place] = []
    for payload in payloads:
        places.append(Place(epoch, number, position, len(payload)))
        position += len(payload)
    return places
