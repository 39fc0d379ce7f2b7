"""A producer's sequences for a run of records, as encoded in a frame. Pure.

int     the first one, if they are consecutive
bytes   the first of the request, 8 bytes, and the distance of each from it, 4 bytes each: a partition's share
list    the same as numbers, as in frames of older versions
None    for a plain producer
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from delta_log.model.murmur2 import Numbers

Sequences = int | bytes | list[int] | None

_FIRST: Final = 8
_FAR: Final = "<i4"
_DENSE: Final = np.arange(4096, dtype=_FAR).tobytes()
_PLACES: Final = memoryview(_DENSE).cast("i")


def pack_sequences(first: int, places: range | Sequence[int] | Numbers) -> bytes:
    """Pack the sequences of the records at these places of a request that begins with `first`.

    An event loop does so for each request. numpy would release the GIL, and the loop would wait to reacquire it.
    """
    if isinstance(places, np.ndarray):
        return _packed(first, places.astype(_FAR).tobytes())
    if not isinstance(places, range):
        return _packed(first, struct.pack(f"<{len(places)}i", *places))
    if places.stop <= len(_PLACES):
        return _packed(first, _PLACES[places.start : places.stop : places.step].tobytes())
    return _packed(first, np.arange(places.start, places.stop, places.step, dtype=_FAR).tobytes())


def _packed(first: int, far: bytes) -> bytes:
    return first.to_bytes(_FIRST, "little") + far


def join_sequences(several: Sequence[Sequences], counts: Numbers) -> Numbers:
    """A number for each record of several runs, arbitrary where there is none. Vectorised, as runs may be many."""
    if any(isinstance(given, list) for given in several):
        return _one_by_one(several, counts)
    firsts: list[int] = []
    far: list[bytes] = []
    for given, count in zip(several, counts.tolist(), strict=True):
        if isinstance(given, bytes):
            firsts.append(int.from_bytes(given[:_FIRST], "little"))
            far.append(given[_FIRST:])
        else:
            firsts.append(given if isinstance(given, int) else 0)
            far.append(_dense(count))
    return np.repeat(np.array(firsts, np.int64), counts) + np.frombuffer(b"".join(far), _FAR)


def _dense(count: int) -> bytes:
    """The distances of `count` consecutive numbers from the first."""
    return _DENSE[: 4 * count] if 4 * count <= len(_DENSE) else np.arange(count, dtype=_FAR).tobytes()


def _one_by_one(several: Sequence[Sequences], counts: Numbers) -> Numbers:
    """Like `join_sequences`, run by run: lists may have any numbers."""
    spread = [
        np.array(given, np.int64) if isinstance(given, list) else join_sequences([given], np.array([count]))
        for given, count in zip(several, counts.tolist(), strict=True)
    ]
    return np.concatenate(spread)
