"""The client's partitioners answer what the server's, and Kafka's, do; with the C packages and without them."""

from __future__ import annotations

import pytest

from delta_log.model.partitioner import PARTITIONERS
from lakelog.foundation.partitioners import HASHES, partitioner_of

KEYS = [b"", b"a", b"ab", b"abc", b"abcd", b"abcde", b"21", b"foobar", "ä😀".encode(), bytes(range(256)), b"\xff" * 7]


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize("partitions", [1, 2, 7, 10_000])
def test_a_key_goes_where_the_server_sends_it(name: str, partitions: int):
    wanted = PARTITIONERS[name](KEYS, partitions)
    choose = partitioner_of(name)
    assert [choose("t", key, partitions) for key in KEYS] == wanted
    assert [HASHES[name](key) % partitions for key in KEYS] == wanted, "without a C package"


def test_kafka_s_own_vectors_hold():
    """From the test of Kafka's `Utils.murmur2`, with the highest bit dropped."""
    vectors = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    assert {key: HASHES["murmur2"](key) for key in vectors} == {key: n & 0x7FFFFFFF for key, n in vectors.items()}


@pytest.mark.parametrize("name", PARTITIONERS)
def test_a_record_without_a_key_is_left_to_the_server(name: str):
    assert partitioner_of(name)("t", None, 5) is None


def test_every_word_of_the_setting_is_a_partitioner():
    assert set(HASHES) == set(PARTITIONERS)
