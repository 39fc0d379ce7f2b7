"""The hashes are frozen by published vectors; null keys and explicit partitions by example.

With as many "partitions" as a hash has values the partition is the hash itself: so the vectors test
the public function.
"""

from __future__ import annotations

import pytest

from delta_log.model.partitioner import NULL_MODES, PARTITIONERS, assign_partitions, murmur2_partition

# Signed, as in Kafka's own tests; b"" is agreed upon by independent ports.
KAFKA_MURMUR2 = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"": 275646681,
}
MURMUR3_32 = {
    b"": 0,
    b"\xff\xff\xff\xff": 0x76293B50,
    b"\x21\x43\x65\x87": 0xF55B516B,
    b"\x21\x43\x65": 0x7E4A8634,
    b"\x21\x43": 0xA0F7B07A,
    b"\x21": 0x72661CF4,
    b"\0\0\0\0": 0x2362F9DE,
    b"\0\0\0": 0x85F0B427,
    b"\0\0": 0x30F4C306,
    b"\0": 0x514E28B7,
}
RFC_1321_MD5 = {
    b"": 0xD41D8CD98F00B204E9800998ECF8427E,
    b"a": 0x0CC175B9C0F1B6A831C399E269772661,
    b"abc": 0x900150983CD24FB0D6963F7D28E17F72,
    b"message digest": 0xF96B697D7CB7938D525A2F31AAF161D0,
    b"abcdefghijklmnopqrstuvwxyz": 0xC3FCD3D76192E4007DFB496CCA67E13B,
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789": 0xD174AB98D277D9F5A5611C2C9F419D9F,
    b"1234567890" * 8: 0x57EDF4A22BE3C955AC49DA2E2107B67A,
}


def assign(
    keys: list[bytes | None],
    partitions: int,
    *,
    partitioner: str = "murmur2",
    first_null: int = 0,
    null_mode: str = "round_robin",
    explicit: list[int | None] | None = None,
) -> tuple[list[int], int]:
    return assign_partitions(partitioner, keys, partitions, first_null, null_mode, explicit)


@pytest.mark.parametrize(("key", "signed"), KAFKA_MURMUR2.items())
@pytest.mark.parametrize("partitions", [2, 3, 12, 50, 1000, 2**31])
def test_murmur2_is_the_partition_of_kafkas_java_client(key: bytes, signed: int, partitions: int) -> None:
    expected = (signed & 0x7FFFFFFF) % partitions
    assert murmur2_partition(key, partitions) == expected
    assert assign([key], partitions) == ([expected], 0)


def test_murmur3_is_the_canonical_hash_taken_as_unsigned() -> None:
    assert assign(list(MURMUR3_32), 2**32, partitioner="murmur3") == (list(MURMUR3_32.values()), 0)


def test_md5_is_the_digest_as_one_big_endian_number() -> None:
    assert assign(list(RFC_1321_MD5), 2**128, partitioner="md5") == (list(RFC_1321_MD5.values()), 0)


@pytest.mark.parametrize(
    ("partitioner", "expected"),
    [("murmur2", [9, 9, 2, 3]), ("murmur3", [0, 4, 7, 3]), ("md5", [6, 1, 0, 1])],
)
def test_the_partition_of_a_key_never_changes(partitioner: str, expected: list[int]) -> None:
    """Stored records lie where these numbers put them: a change here is a change of every topic."""
    assert assign([b"", b"customer-1", b"customer-2", b"\xf0\x9f\x99\x82"], 12, partitioner=partitioner)[0] == expected


def test_null_keys_take_partitions_in_turn_and_consume_a_place_each() -> None:
    assert assign([None] * 5, 3, first_null=7) == ([1, 2, 0, 1, 2], 5)


def test_sticky_null_keys_of_a_request_stay_together_and_consume_one_place() -> None:
    assert assign([None] * 5, 3, first_null=7, null_mode="sticky") == ([1] * 5, 1)


@pytest.mark.parametrize("null_mode", NULL_MODES)
def test_without_a_null_key_no_place_is_consumed(null_mode: str) -> None:
    assert assign([b"a"], 3, first_null=7, null_mode=null_mode)[1] == 0


def test_an_empty_key_is_hashed_and_is_not_null() -> None:
    empty = murmur2_partition(b"", 12)
    assert assign([b"", None], 12, first_null=empty + 1) == ([empty, (empty + 1) % 12], 1)


def test_keyed_records_between_null_keys_take_no_place_in_the_turn() -> None:
    key = murmur2_partition(b"k", 5)
    assert assign([None, b"k", None, b"k", None], 5) == ([0, key, 1, key, 2], 3)


def test_an_explicit_partition_goes_before_the_key() -> None:
    key = murmur2_partition(b"k", 5)
    other = (key + 1) % 5
    assert assign([b"k", b"k"], 5, explicit=[other, None]) == ([other, key], 0)


@pytest.mark.parametrize(("null_mode", "expected"), [("round_robin", ([4, 2, 3], 2)), ("sticky", ([4, 2, 2], 1))])
def test_a_null_key_with_an_explicit_partition_consumes_no_place(
    null_mode: str, expected: tuple[list[int], int]
) -> None:
    assert assign([None] * 3, 5, first_null=2, null_mode=null_mode, explicit=[4, None, None]) == expected


@pytest.mark.parametrize(("null_mode", "consumed"), [("round_robin", 2), ("sticky", 1)])
def test_one_partition_takes_everything_and_still_counts_null_keys(null_mode: str, consumed: int) -> None:
    assert assign([None, b"k", None], 1, first_null=9, null_mode=null_mode) == ([0, 0, 0], consumed)


def test_an_explicit_partition_is_kept_even_if_it_does_not_exist() -> None:
    """Its existence is the caller's to check; silently moving the record would hide the mistake."""
    assert assign([b"k"], 1, explicit=[7]) == ([7], 0)


def test_a_request_without_records_is_assigned_nothing() -> None:
    assert assign([], 3, first_null=1) == ([], 0)
    assert assign([], 3, first_null=1, null_mode="sticky", explicit=[]) == ([], 0)


def test_keys_and_explicit_partitions_must_pair_up() -> None:
    with pytest.raises(ValueError, match="zip"):
        assign([b"k"], 3, explicit=[1, 2])


@pytest.mark.parametrize("partitioner", PARTITIONERS)
def test_every_partitioner_reaches_every_partition(partitioner: str) -> None:
    places, _ = assign([b"key-%d" % i for i in range(2000)], 12, partitioner=partitioner)
    counts = [places.count(partition) for partition in range(12)]
    assert min(counts) > 100, counts
