"""When a disk counts as full, and what becomes of the ballast: laws of the decision, and a model of a disk under it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_log.runtime.fullness import (
    SLICES,
    Fullness,
    Look,
    ballast_size,
    decide_step,
    leaves_enough,
    reserve_of,
    settle_fill,
    slice_of,
)

SIZE = 8 * 1024 * 1024
SLICE = SIZE // SLICES
FULL = Fullness(full=True, refused_at=0.0)


def look(free: int, held: int = SIZE, now: float = 100.0, *, refused: int = 0, by_quota: bool = False) -> Look:
    return Look(now, free, held, refused, by_quota)


@pytest.mark.parametrize(
    ("wanted", "total", "size"),
    [
        (64 << 20, 1 << 40, 64 << 20),
        (64 << 20, 64 << 20, 2 << 20),
        (64 << 20, 1 << 20, 32 << 10),
        (64 << 20, 100_000, 0),
        (0, 1 << 40, 0),
        (5_000_000, 1 << 40, 5_000_000 // 32768 * 32768),
    ],
)
def test_the_ballast_is_what_was_wanted_or_a_small_part_of_a_small_disk(wanted: int, total: int, size: int):
    assert ballast_size(wanted, total) == size
    assert slice_of(size) * SLICES == size


def test_a_disk_with_room_gets_its_ballast_and_is_left_alone_with_it():
    assert decide_step(Fullness(), look(4 * SIZE, 0), SIZE) == (Fullness(), 0, True)
    assert decide_step(Fullness(), look(4 * SIZE), SIZE) == (Fullness(), 0, False)


def test_a_ballast_that_would_leave_no_room_is_not_made():
    assert not decide_step(Fullness(), look(SIZE + SLICE, 0), SIZE).fill


def test_a_ballast_larger_than_it_should_be_is_made_smaller():
    assert decide_step(Fullness(), look(4 * SIZE, 3 * SIZE), SIZE).give_back == 2 * SIZE
    assert decide_step(Fullness(), look(4 * SIZE, SIZE), 0).give_back == SIZE


@pytest.mark.parametrize(
    "seen", [look(SLICE - 1), look(10 * SIZE, refused=1), look(10 * SIZE, refused=1, by_quota=True)]
)
def test_a_disk_is_full_when_less_than_a_slice_is_free_or_a_write_was_refused_and_half_is_given_back(seen: Look):
    step = decide_step(Fullness(), seen, SIZE)
    assert step.after.full
    assert (step.give_back, step.fill) == (SIZE // 2, False)


def test_without_a_ballast_only_a_refused_write_makes_a_disk_full():
    assert not decide_step(Fullness(), look(0, 0), 0).after.full
    assert decide_step(Fullness(), look(0, 0, refused=1), 0).after.full


def test_the_second_half_goes_slice_by_slice_and_only_when_there_is_less_than_one():
    assert decide_step(FULL, look(SLICE - 1, SIZE // 2), SIZE).give_back == SLICE
    assert decide_step(FULL, look(SLICE, SIZE // 2), SIZE).give_back == 0
    assert decide_step(FULL, look(0, 0), SIZE).give_back == 0


def test_under_a_quota_each_refusal_has_a_slice_given_back_and_silence_none():
    known = FULL._replace(by_quota=True)
    assert decide_step(known, look(10 * SIZE, SIZE // 2, refused=3), SIZE).give_back == SLICE
    assert decide_step(known, look(0, SIZE // 2, now=1.0), SIZE).give_back == 0


def test_under_a_quota_the_ballast_itself_is_how_room_is_looked_for_now_and_then():
    known = FULL._replace(by_quota=True)
    assert decide_step(known, look(0, SIZE // 2, now=10.0), SIZE).fill
    tried = settle_fill(known, 10.0, whole=False)
    assert not decide_step(tried, look(0, SIZE // 2, now=12.0), SIZE).fill
    assert decide_step(tried, look(0, SIZE // 2, now=15.0), SIZE).fill


def test_what_ends_fullness_is_room_for_the_whole_ballast_and_two_slices_and_no_refusal_for_a_while():
    enough = SIZE // 2 + 2 * SLICE
    assert decide_step(FULL, look(enough, SIZE // 2), SIZE).fill
    assert not decide_step(FULL, look(enough - 1, SIZE // 2), SIZE).fill
    assert not decide_step(FULL, look(enough, SIZE // 2, now=1.0), SIZE).fill
    assert settle_fill(FULL, 100.0, whole=True) == Fullness()
    assert settle_fill(FULL, 100.0, whole=False).full


def test_tables_and_offsets_leave_half_of_the_ballast_to_what_makes_room():
    assert leaves_enough(SIZE // 2, 0, SIZE)
    assert not leaves_enough(SIZE // 2, 1, SIZE)
    assert leaves_enough(0, 1, 0)
    assert reserve_of(FULL, look(SLICE, SLICE)) == 2 * SLICE
    assert reserve_of(FULL._replace(by_quota=True), look(10 * SIZE, SLICE)) == SLICE


@given(
    total=st.integers(0, 1 << 34),
    wanted=st.integers(0, 1 << 27),
    others=st.lists(st.integers(-(1 << 30), 1 << 30), max_size=60),
    data=st.data(),
)
def test_on_any_disk_the_ballast_never_takes_the_last_room_and_full_ends_with_it_whole(
    total: int, wanted: int, others: list[int], data: st.DataObject
):
    """Others take and give room between the looks; writes are refused now and then, and a fill may find less."""
    size = ballast_size(wanted, total)
    known, held, used, now = Fullness(), 0, 0, 0.0
    for change, tick in zip(others, itertools.cycle([0.5, 1.0, 3.0]), strict=False):
        now += tick
        used = min(max(0, used + change), total - held)
        seen = Look(now, total - held - used, held, data.draw(st.sampled_from([0, 0, 0, 1])))
        step = decide_step(known, seen, size)
        was_full, known = known.full, step.after
        assert 0 <= step.give_back <= held
        assert not (step.give_back and step.fill)
        held -= step.give_back
        if step.fill:
            assert seen.free >= size - held
            whole = data.draw(st.booleans())
            held = size if whole else held
            known = settle_fill(known, now, whole=whole)
        if was_full and not known.full:
            assert held >= size
            assert total - held - used >= 2 * slice_of(size)
        if known.full and held:
            assert (
                total - held - used >= slice_of(size) or step.give_back >= slice_of(size) or seen.held <= slice_of(size)
            )
