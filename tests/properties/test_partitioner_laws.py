"""Laws of the partitioner, against plain references that share no code with it."""

from __future__ import annotations

from hashlib import md5

import mmh3
from hypothesis import example, given
from hypothesis import strategies as st

from delta_log.model.partitioner import NULL_MODES, PARTITIONERS, assign_partitions, murmur2_partition

keys = st.binary(max_size=40)
requests = st.lists(st.tuples(st.none() | keys, st.none() | st.integers(0, 2**20)), max_size=30)
plain_requests = st.lists(st.none() | keys, max_size=30)
partitions = st.integers(1, 40) | st.integers(1, 10_000)
places = st.integers(0, 2**63)
partitioners = st.sampled_from(sorted(PARTITIONERS))
null_modes = st.sampled_from(sorted(NULL_MODES))


def reference_murmur2(data: bytes) -> int:
    """The 32-bit murmur2 of the Java client, written from the definition."""
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    whole = len(data) & ~3
    h = 0x9747B28C ^ len(data)
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if data[whole:]:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def reference_partition(partitioner: str, key: bytes, count: int) -> int:
    match partitioner:
        case "murmur2":
            return (reference_murmur2(key) & 0x7FFFFFFF) % count
        case "murmur3":
            return mmh3.hash(key, 0, signed=False) % count
        case _:
            return int(md5(key).hexdigest(), 16) % count


@given(st.binary(max_size=300))
@example(b"\xff" * 255)
@example(b"\x80\x81\x82")
def test_murmur2_agrees_with_its_definition_at_every_length(key: bytes) -> None:
    assert murmur2_partition(key, 2**31) == reference_murmur2(key) & 0x7FFFFFFF


def test_murmur2_agrees_with_its_definition_for_every_tail_of_high_bytes() -> None:
    for length in range(70):
        for byte in (0x00, 0x7F, 0x80, 0xFF):
            key = bytes([byte]) * length
            assert murmur2_partition(key, 2**31) == reference_murmur2(key) & 0x7FFFFFFF


@given(partitioners, requests, partitions, places, null_modes)
def test_each_record_lies_where_a_plain_loop_puts_it(
    partitioner: str,
    records: list[tuple[bytes | None, int | None]],
    count: int,
    first_null: int,
    null_mode: str,
) -> None:
    expected: list[int] = []
    nulls = 0
    for key, explicit in records:
        if explicit is not None:
            expected.append(explicit)
        elif key is not None:
            expected.append(reference_partition(partitioner, key, count))
        else:
            expected.append((first_null + (nulls if null_mode == "round_robin" else 0)) % count)
            nulls += 1
    consumed = nulls if null_mode == "round_robin" else min(nulls, 1)
    given_keys, given_places = [key for key, _ in records], [place for _, place in records]
    assigned = assign_partitions(partitioner, given_keys, count, first_null, null_mode, given_places)
    assert assigned == (expected, consumed)


@given(partitioners, plain_requests, partitions, places, null_modes)
def test_explicit_partitions_that_are_all_null_change_nothing(
    partitioner: str, request: list[bytes | None], count: int, first_null: int, null_mode: str
) -> None:
    assert assign_partitions(partitioner, request, count, first_null, null_mode, None) == assign_partitions(
        partitioner, request, count, first_null, null_mode, [None] * len(request)
    )


@given(partitioners, plain_requests, plain_requests, partitions, places)
def test_the_turn_goes_on_from_request_to_request(
    partitioner: str, first: list[bytes | None], second: list[bytes | None], count: int, place: int
) -> None:
    """Round robin: how records are cut into requests does not change where they lie."""
    at_once, consumed = assign_partitions(partitioner, first + second, count, place, "round_robin", None)
    one, used = assign_partitions(partitioner, first, count, place, "round_robin", None)
    two, used_too = assign_partitions(partitioner, second, count, place + used, "round_robin", None)
    assert (one + two, used + used_too) == (at_once, consumed)


@given(partitioners, plain_requests, partitions, places, null_modes)
def test_a_partition_always_exists(
    partitioner: str, request: list[bytes | None], count: int, first_null: int, null_mode: str
) -> None:
    assigned, _ = assign_partitions(partitioner, request, count, first_null, null_mode, None)
    assert all(0 <= partition < count for partition in assigned)
