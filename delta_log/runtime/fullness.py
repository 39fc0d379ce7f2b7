"""Decides when a disk counts as full, and the use of the ballast then. Pure.

    full      when a write found no space, or when less is free than a slice of the ballast
    then      half of the ballast is given back at once, of the other half a slice whenever less than one is free
    no more   when the ballast could be made whole again and twice a slice is free besides

So the state does not flap: below an eighth of the ballast a disk counts as full, the whole of it and more ends that.
With an exhausted quota the free space is unknown: then making the ballast is tried from time to time.

`reserve` is the free space plus the rest of the ballast. Tables and offsets may use it down to half of the ballast;
the rest is for operations that free space, and for starts. It knows numbers; it must not know where they come from.
"""

from __future__ import annotations

from typing import Final, NamedTuple

SLICES: Final = 8
#: The ballast takes at most this fraction (1/SHARE) of a file system.
SHARE: Final = 32
_BLOCK: Final = 4096
#: Free bytes required for a disk not to be full, if there is no ballast.
_ROOM: Final = 1024 * 1024
#: Time without a refused write before a disk stops counting as full.
_QUIET_S: Final = 2.0
_TRIED_EVERY_S: Final = 3.0


class Look(NamedTuple):
    """The disk at one moment. `held`: bytes of the ballast; `refused`: writes refused since the last look."""

    now: float
    free: int
    held: int
    refused: int = 0
    by_quota: bool = False


class Fullness(NamedTuple):
    """State from earlier looks."""

    full: bool = False
    by_quota: bool = False
    refused_at: float = float("-inf")
    tried_at: float = float("-inf")


class Step(NamedTuple):
    """The next step: give bytes of the ballast back, or try to make it whole. `after`: the state once that is done."""

    after: Fullness
    give_back: int = 0
    fill: bool = False


def ballast_size(wanted: int, total: int) -> int:
    """Size of the ballast on a file system of `total` bytes: whole slices of whole blocks."""
    return min(wanted, total // SHARE) // (SLICES * _BLOCK) * (SLICES * _BLOCK)


def slice_of(size: int) -> int:
    return size // SLICES


def decide_step(known: Fullness, look: Look, size: int) -> Step:
    """Decide the next step for a ballast with a target of `size` bytes."""
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
    """The state after an attempt to make the ballast whole."""
    return Fullness() if whole else known._replace(tried_at=now)


def reserve_of(known: Fullness, look: Look) -> int:
    """Bytes still available: the free ones, as far as known, and the ballast."""
    return look.held + (0 if known.by_quota else look.free)


def leaves_enough(reserve: int, wanted: int, size: int) -> bool:
    """True if an operation that frees no space may take `wanted` bytes of the reserve."""
    return not size or reserve - wanted >= size // 2


def _tend(known: Fullness, look: Look, size: int) -> Step:
    """Bring the ballast to its target size while there is space."""
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
