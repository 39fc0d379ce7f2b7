"""A large set of offsets in little memory."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from delta_log.model.offset_sets import OffsetSet

#: Some far apart, and some close together around where a block ends.
OFFSETS = st.integers(0, 1 << 40) | st.integers(65_500, 65_600)


def of(*parts: list[int]) -> OffsetSet:
    made = OffsetSet()
    for part in parts:
        made.add(np.array(part, np.int64))
    return made


@given(st.lists(st.sets(OFFSETS, max_size=30), max_size=5), OFFSETS, OFFSETS)
def test_what_was_added_is_there_in_order_and_nothing_else(added: list[set[int]], low: int, high: int):
    known: set[int] = set()
    made = OffsetSet()
    for part in added:
        made.add(np.array(sorted(part - known), np.int64))
        known |= part
    assert len(made) == len(known)
    assert made.between(0, 1 << 41).tolist() == sorted(known)
    expected = [offset for offset in sorted(known) if low <= offset < high]
    assert made.between(low, high).tolist() == expected
    travelled = pickle.loads(pickle.dumps(made.part(low, high)))
    assert travelled.between(low, high).tolist() == expected


def test_what_lies_close_takes_a_bit_each_however_it_came():
    made = of(*[list(range(start, 1_000_000, 10)) for start in range(10)])
    assert len(made) == 1_000_000
    assert np.array_equal(made.between(0, 1_000_000), np.arange(1_000_000))
    for low, high in [
        (0, 1),
        (7, 9),
        (8, 8),
        (65_530, 65_536),
        (65_535, 65_537),
        (65_537, 131_079),
        (999_999, 1 << 40),
    ]:
        assert np.array_equal(made.between(low, high), np.arange(low, min(high, 1_000_000))), (low, high)
    assert len(pickle.dumps(made)) < 150_000


def test_what_lies_far_apart_takes_little_more_than_two_bytes_each():
    made = of(list(range(0, 100_000_000, 100)))
    assert len(made.between(0, 100_000_000)) == 1_000_000
    assert len(pickle.dumps(made)) < 3_000_000
