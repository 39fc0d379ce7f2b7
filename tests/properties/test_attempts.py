"""Counting by stretches how often records were tried in vain is counting it by records."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from consumer_groups.model.delivery_attempts import Attempts

OFFSETS = st.integers(0, 12)


@given(st.lists(st.tuples(st.sampled_from(["add", "alone", "forget"]), OFFSETS, OFFSETS), max_size=20))
def test_stretches_count_as_records_do(steps: list[tuple[str, int, int]]):
    attempts, counted, alone = Attempts(), Counter[int](), set[int]()
    for what, one, other in steps:
        low, high = sorted((one, other))
        if what != "forget":
            attempts = attempts.add(low, high, alone=what == "alone")
            counted.update(range(low, high))
            alone |= set(range(low, high)) if what == "alone" else set()
        else:
            attempts = attempts.forget_below(low)
            alone = {offset for offset in alone if offset >= low}
            counted = Counter({offset: count for offset, count in counted.items() if offset >= low})
        assert [attempts.of(offset) for offset in range(14)] == [counted[offset] for offset in range(14)]
        assert {offset for offset in range(14) if attempts.was_alone(offset)} == alone
        for times in range(1, 4):
            for offset in range(14):
                found = (each for each in range(offset, 14) if counted[each] >= times)
                assert attempts.first_with(times, offset) == next(found, None)


def test_of_too_many_pieces_the_latest_is_known_and_none_is_counted_higher():
    attempts = Attempts()
    for number in range(3000):
        attempts = attempts.add(3 * number, 3 * number + 1)
        assert attempts.of(3 * number) == 1
    for number in range(3000, 0, -1):
        attempts = attempts.add(3 * number, 3 * number + 1)
        assert 1 <= attempts.of(3 * number) <= 2
    assert len(attempts.stretches) <= 200
