"""Partitioners of the client: keys get the same partitions as by the server, and by Kafka's clients. Pure.

The C packages `murmurhash2` and `mmh3` are used if they are installed; the loops here return the same values.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from hashlib import md5
from typing import Any, Final

_MASK: Final = 0xFFFFFFFF
_KAFKA_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_C1, _C2, _C3, _C4, _C5 = 0xCC9E2D51, 0x1B873593, 0xE6546B64, 0x85EBCA6B, 0xC2B2AE35

Hash = Callable[[bytes], int]


def murmur2(key: bytes) -> int:
    """Kafka's murmur2 as a positive number: the highest bit is dropped."""
    whole = len(key) & ~3
    value = _KAFKA_SEED ^ len(key)
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * _M & _MASK
        value = (value * _M ^ (word ^ word >> 24) * _M) & _MASK
    if whole < len(key):
        value = (value ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return (value ^ value >> 15) & 0x7FFFFFFF


def murmur3(key: bytes) -> int:
    """murmur3_32 with seed 0, as an unsigned number."""
    whole = len(key) & ~3
    value = 0
    for at in range(0, whole, 4):
        value ^= _mixed(int.from_bytes(key[at : at + 4], "little"))
        value = (_rotated(value, 13) * 5 + _C3) & _MASK
    if whole < len(key):
        value ^= _mixed(int.from_bytes(key[whole:], "little"))
    value ^= len(key)
    value = (value ^ value >> 16) * _C4 & _MASK
    value = (value ^ value >> 13) * _C5 & _MASK
    return value ^ value >> 16


def md5_number(key: bytes) -> int:
    """The digest as one big-endian unsigned number."""
    return int.from_bytes(md5(key, usedforsecurity=False).digest(), "big")


def partitioner_of(name: str) -> Callable[[str, bytes | None, int], int | None]:
    """Partitioner by its name; it leaves a record without a key to the server."""
    hashed = _fast(name) or HASHES[name]

    def partition(_: str, key: bytes | None, partitions: int) -> int | None:
        return None if key is None else hashed(key) % partitions

    return partition


HASHES: Final[Mapping[str, Hash]] = {"murmur2": murmur2, "murmur3": murmur3, "md5": md5_number}


def _fast(name: str) -> Hash | None:
    try:
        if name == "murmur2":
            by_seed: Callable[[bytes, int], int] = importlib.import_module("murmurhash2").murmurhash2
            return lambda key: by_seed(key, _KAFKA_SEED) & 0x7FFFFFFF
        if name == "murmur3":
            module: Any = importlib.import_module("mmh3")
            return module.mmh3_32_uintdigest
    except (ImportError, AttributeError):
        pass
    return None


def _mixed(word: int) -> int:
    return _rotated(word * _C1 & _MASK, 15) * _C2 & _MASK


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _MASK
