"""Partitioners: assign a record to a partition.

Knows the three hashes and the handling of null keys. Must not know topics, or whether an explicit partition exists:
the caller checks that. Its results are stable: a key stays in the same partition for ever, as long as the number of
partitions does not change, so the hashes are fixed by published test vectors.

Keys are `bytes` objects; the empty key b"" is a key and is hashed, null is no key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import md5
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from mmh3 import mmh3_32_uintdigest
from murmurhash2 import murmurhash2

from delta_log.model.murmur2 import LONGEST, Numbers, hash_array, hash_keys

_KAFKA_SEED = 0x9747B28C
#: From this number of keys on, hashing them as a column is faster than one by one.
_COLUMN_FROM = 128


def murmur2_partition(key: bytes, partitions: int) -> int:
    """The partition that Kafka's Java client assigns: toPositive(murmur2(key)) % partitions."""
    return _by_murmur2((key,), partitions)[0]


def _by_murmur2(keys: Sequence[bytes], partitions: int) -> list[int]:
    if len(keys) >= _COLUMN_FROM and max(map(len, keys)) <= LONGEST:
        return _places(hash_keys(keys), partitions).tolist()
    return [(murmurhash2(key, _KAFKA_SEED) & 0x7FFFFFFF) % partitions for key in keys]


def _places(hashes: Numbers, partitions: int) -> Numbers:
    return (hashes & 0x7FFFFFFF) % partitions


def _by_murmur3(keys: Sequence[bytes], partitions: int) -> list[int]:
    """murmur3_32 with seed 0, as an unsigned number."""
    return [mmh3_32_uintdigest(key) % partitions for key in keys]


def _by_md5(keys: Sequence[bytes], partitions: int) -> list[int]:
    """The MD5 digest, as one big-endian unsigned number."""
    number = int.from_bytes
    return [number(md5(key, usedforsecurity=False).digest(), "big") % partitions for key in keys]


def _in_turn(first: int, nulls: int, partitions: int) -> tuple[list[int], int]:
    turn = [place % partitions for place in range(first, first + min(nulls, partitions))]
    return (turn * (nulls // partitions + 1))[:nulls], nulls


def _together(first: int, nulls: int, partitions: int) -> tuple[list[int], int]:
    return [first % partitions] * nulls, min(nulls, 1)


# Values of lakelog.partitioner and lakelog.partitioner.null.
PARTITIONERS: Mapping[str, Callable[[Sequence[bytes], int], list[int]]] = {
    "murmur2": _by_murmur2,
    "murmur3": _by_murmur3,
    "md5": _by_md5,
}
NULL_MODES: Mapping[str, Callable[[int, int, int], tuple[list[int], int]]] = {
    "round_robin": _in_turn,
    "sticky": _together,
}


def assign_partitions(
    partitioner: str,
    keys: Sequence[bytes | None],
    partitions: int,
    first_null: int,
    null_mode: str,
    explicit: Sequence[int | None] | None,
) -> tuple[list[int], int]:
    """The partition of each record of a request, and the advance of the topic's `first_null`.

    An explicit partition overrides the key. The other null keys are assigned to `first_null`, `first_null` + 1, …
    in turn (round_robin, one step each) or all to `first_null` (sticky, one step for the request).
    """
    if explicit is None:
        return _assign_by_key(partitioner, keys, partitions, first_null, null_mode)
    rest = [key for key, place in zip(keys, explicit, strict=True) if place is None]
    assigned, consumed = _assign_by_key(partitioner, rest, partitions, first_null, null_mode)
    following = iter(assigned)
    return [next(following) if place is None else place for place in explicit], consumed


def assign_array(
    partitioner: str,
    keys: pa.Array,
    partitions: int,
    first_null: int,
    null_mode: str,
    explicit: Sequence[int | None] | None,
) -> tuple[Numbers, int]:
    """Like `assign_partitions`, for a binary Arrow array."""
    if explicit is None and partitions > 1:
        if partitioner == "murmur2" and _hashes_as_column(keys):
            return _places(hash_array(keys), partitions), 0
        if keys.null_count == len(keys) and null_mode == "round_robin":
            return np.arange(first_null % partitions, first_null % partitions + len(keys)) % partitions, len(keys)
    places, consumed = assign_partitions(partitioner, keys.to_pylist(), partitions, first_null, null_mode, explicit)
    return np.array(places, np.int64), consumed


def _hashes_as_column(keys: pa.Array) -> bool:
    if keys.null_count or len(keys) < _COLUMN_FROM:
        return False
    return pc.max(pc.binary_length(keys)).as_py() <= LONGEST


def _assign_by_key(
    partitioner: str, keys: Sequence[bytes | None], partitions: int, first_null: int, null_mode: str
) -> tuple[list[int], int]:
    nulls = keys.count(None)
    for_nulls, consumed = NULL_MODES[null_mode](first_null, nulls, partitions)
    if partitions == 1:
        return [0] * len(keys), consumed
    if nulls == len(keys):
        return for_nulls, consumed
    by_hash = PARTITIONERS[partitioner]
    if not nulls:
        return by_hash(cast("Sequence[bytes]", keys), partitions), consumed
    null_places = iter(for_nulls)
    key_places = iter(by_hash([key for key in keys if key is not None], partitions))
    return [next(null_places) if key is None else next(key_places) for key in keys], consumed
