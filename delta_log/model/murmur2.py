"""Kafka's murmur2 for many keys at once.

The C function hashes a key in a tenth of a microsecond but releases the GIL on each call, so with many threads a large
request waited for the GIL hundreds of times. Here a column of keys is hashed word by word across all of them.
Numbers are unsigned and 32 bits wide throughout, and wrap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

_SEED: Final = 0x9747B28C
_M: Final = np.uint32(0x5BD1E995)
_WORD: Final = 4
#: Mask of the key's bytes in its last, incomplete word, by their number.
_TAIL_MASK: Final = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)
#: Longer keys would cost a pass over all keys for each of their words: the C function is faster for them.
LONGEST: Final = 128

Numbers = Any  # np.ndarray[Any, np.dtype[np.uint32]]: its stubs are no help where buffers are reinterpreted


def hash_keys(keys: Sequence[bytes]) -> Numbers:
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    starts = np.zeros(len(keys), np.int64)
    np.cumsum(lengths[:-1], out=starts[1:])
    return _hash(b"".join(keys), starts, lengths)


def hash_array(keys: pa.Array) -> Numbers:
    """Like `hash_keys`, for a binary Arrow array without nulls; no key becomes a Python object."""
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    content = b"" if data is None else memoryview(data)[ends[0] : ends[-1]]
    return _hash(bytes(content), ends[:-1] - ends[0], np.diff(ends))


def _hash(data: bytes, starts: Numbers, lengths: Numbers) -> Numbers:
    padded = data + bytes(_WORD)
    words = np.ndarray((len(data) + 1,), np.dtype("<u4"), padded, strides=(1,))
    counts = lengths // _WORD
    hashes = lengths.astype(np.uint32) ^ np.uint32(_SEED)
    fewest = int(counts.min())
    for place in range(int(counts.max())):
        if place < fewest:
            hashes = (hashes * _M) ^ _mixed(words[starts + _WORD * place])
        else:
            chosen = np.flatnonzero(counts > place)
            hashes[chosen] = (hashes[chosen] * _M) ^ _mixed(words[starts[chosen] + _WORD * place])
    left = lengths % _WORD
    if left.any():
        last: Numbers = words[starts + _WORD * counts] & _TAIL_MASK[left]
        ended: Numbers = (hashes ^ last) * _M
        hashes = _chosen(left, ended, hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _M
    return hashes ^ (hashes >> np.uint32(15))


def _chosen(condition: Numbers, yes: Numbers, no: Numbers) -> Numbers:
    chosen = no.copy()
    places = np.flatnonzero(condition)
    chosen[places] = yes[places]
    return chosen


def _mixed(word: Numbers) -> Numbers:
    word = word * _M
    word ^= word >> np.uint32(24)
    return word * _M
