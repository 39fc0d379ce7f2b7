"""When a disk counts as full, and what becomes of the ballast then. Pure.

    full      when a write found no room, or when less is free than a slice of the ballast
    then      half of the ballast is given back at once, of the other half a slice whenever less than one is free
    no more   when the ballast could be made whole again and twice a slice is free besides

So nothing flaps: an eighth of the ballast makes a disk count as full, the whole of it and more ends that. Where a quota
is exhausted nothing tells how much is free: then it is tried, now and then, to make the ballast.

`reserve` is what is free and what the ballast can still give. Tables and offsets may use it down to half of the
ballast; the rest is for what makes room, and for starts. It knows numbers; it must not know where they come from.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SLICES: Final = 8
#: The ballast takes no more of a file system than one part in so many.
SHARE: Final = 32
_BLOCK: Final = 4096
#: What must be free for a disk not to be full where there is no ballast to tell.
_ROOM: Final = 1024 * 1024
#: So long no write may have been refused, before a disk counts as full no more.
_QUIET_S: Final = 2.0
_TRIED_EVERY_S: Final = 3.0


class Look(NamedTuple):
    """What there is at one moment. `held` is what the ballast takes, `refused` how many writes found no room since."""

    now: float
    free: int
    held: int
    refused: int = 0
    by_quota: bool = False


class Fullness(NamedTuple):
    """What is known from earlier looks."""

    full: bool = False
    by_quota: bool = False
    refused_at: float = float("-inf")
    tried_at: float = float("-inf")


class Step(NamedTuple):
    """What to do now: give so much of the ballast back, or try to make it whole. `after` holds once that is done."""

    after: Fullness
    give_back: int = 0
    fill: bool = False


def ballast_size(wanted: int, total: int) -> int:
    """How large the ballast is on a file system of `total` bytes: whole slices of whole blocks."""
    return min(wanted, total // SHARE) // (SLICES * _BLOCK) * (SLICES * _BLOCK)


def slice_of(size: int) -> int:
    return size // SLICES


def decide_step(known: Fullness, look: Look, size: int) -> Step:
    """What to do about a ballast that is to have `size` bytes."""
    if not known.full and not look.refused and look.free >= slice_of(size):
        return _tend(known, look, size)
    by_quota = look.by_quota or (known.full and known.by_quota)
    after = Fullness(
        full=True,
        by_quota=by_quota,
        refused_at=look.now if look.refused else known.refused_at,
        tried_at=known.tried_at,
    )
    if look.now - after.refused_at >= _QUIET_S and _may_fill(after, look, size):
        return Step(after, fill=True)
    return Step(after, give_back=_give_back(known, after, look, size))


def settle_fill(known: Fullness, now: float, *, whole: bool) -> Fullness:
    """What is known once it was tried to make the ballast whole."""
    return Fullness() if whole else known._replace(tried_at=now)


def reserve_of(known: Fullness, look: Look) -> int:
    """What can still be had: what is free, as far as that is known, and the ballast."""
    return look.held + (0 if known.by_quota else look.free)


def leaves_enough(reserve: int, wanted: int, size: int) -> bool:
    """Whether what does not make room may take `wanted` bytes of the reserve."""
    return not size or reserve - wanted >= size // 2


def _tend(known: Fullness, look: Look, size: int) -> Step:
    """There is room: have the ballast as large as it should be."""
    if look.held > size:
        return Step(known, give_back=look.held - size)
    missing = size - look.held
    due = look.now - known.tried_at >= _TRIED_EVERY_S
    return Step(known, fill=bool(missing) and due and look.free >= missing + 2 * slice_of(size))


def _may_fill(known: Fullness, look: Look, size: int) -> bool:
    if known.by_quota:
        return look.now - max(known.tried_at, known.refused_at) >= _TRIED_EVERY_S
    return look.free >= max(0, size - look.held) + max(2 * slice_of(size), 0 if size else _ROOM)


def _give_back(known: Fullness, after: Fullness, look: Look, size: int) -> int:
    first = 0 if known.full else max(0, look.held - size // 2)
    left = look.held - first
    short = bool(look.refused) if after.by_quota else look.free + first < slice_of(size)
    return first + (min(left, slice_of(size)) if short and not (after.by_quota and first) else 0)
