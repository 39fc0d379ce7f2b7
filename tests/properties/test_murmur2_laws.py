"""Hashing a column of keys gives what Kafka's hash gives each of them."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from murmurhash2 import murmurhash2

from delta_log.model.murmur2 import hash_array, hash_keys
from delta_log.model.partitioner import assign_array, assign_partitions, murmur2_partition

SEED = 0x9747B28C

keys = st.lists(st.binary(max_size=150), min_size=1, max_size=300)


@given(keys)
def test_a_column_of_keys_hashes_like_each_key(given_keys):
    assert hash_keys(given_keys).tolist() == [murmurhash2(key, SEED) for key in given_keys]


@given(keys, st.integers(0, 5))
def test_an_arrow_array_hashes_like_each_key_also_when_it_is_a_slice(given_keys, cut):
    array = pa.array([b"cut away"] * cut + given_keys + [b"too"], pa.binary()).slice(cut, len(given_keys))
    assert hash_array(array).tolist() == [murmurhash2(key, SEED) for key in given_keys]


@given(st.lists(st.none() | st.binary(max_size=200), min_size=1, max_size=300), st.integers(1, 100))
def test_lists_and_arrays_of_any_size_are_assigned_alike(given_keys, partitions):
    listed = assign_partitions("murmur2", given_keys, partitions, 7, "round_robin", None)
    array = pa.array(given_keys, pa.binary())
    places, consumed = assign_array("murmur2", array, partitions, 7, "round_robin", None)
    assert (places.tolist(), consumed) == listed
    for key, place in zip(given_keys, listed[0], strict=True):
        assert key is None or place == murmur2_partition(key, partitions)


@given(st.integers(1, 300), st.integers(1, 9), st.integers(0, 2**40), st.sampled_from(["round_robin", "sticky"]))
def test_null_keys_alone_are_assigned_alike(count, partitions, first, nulls):
    places, consumed = assign_array("md5", pa.nulls(count, pa.binary()), partitions, first, nulls, None)
    assert (places.tolist(), consumed) == assign_partitions("md5", [None] * count, partitions, first, nulls, None)


def test_a_large_request_is_assigned_by_the_column():
    many = [b"key-%d" % number for number in range(1000)]
    places, consumed = assign_partitions("murmur2", many, 12, 0, "round_robin", None)
    assert places == [murmur2_partition(key, 12) for key in many]
    assert consumed == 0
