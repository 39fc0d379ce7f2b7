"""Leases: who may take one, who has lost his, and what is cleared away."""

from __future__ import annotations

import pytest

from delta_log.maintenance.leases import (
    SWEPT_AFTER_MS,
    Free,
    Held,
    Lease,
    check_won,
    decide_taking,
    is_forgotten,
    plan_clearing,
)
from delta_log.model.clock_tolerance import CLOCK_TOLERANCE_MS

LEASE = Lease("ann", 1_000_000, 1_060_000)


@pytest.mark.parametrize(
    ("now_ms", "holds"),
    [
        (1_000_000, True),
        (1_059_999, True),
        (1_060_000, False),
        (1_000_000 - CLOCK_TOLERANCE_MS, True),
        (1_000_000 - CLOCK_TOLERANCE_MS - 1, False),
    ],
    ids=["just taken", "to its last moment", "over", "a clock a little behind", "a clock that was turned back"],
)
def test_a_lease_holds_for_its_time_and_not_by_a_clock_that_was_turned_back(now_ms: int, holds: bool):
    assert LEASE.holds_at(now_ms) is holds
    assert decide_taking(7, LEASE, now_ms) == (Held(LEASE) if holds else Free(8))


def test_the_first_number_is_1_and_what_cannot_be_read_binds_nobody():
    assert decide_taking(0, None, 5) == Free(1)
    assert decide_taking(4, None, 5) == Free(5)


def test_only_the_highest_number_counts():
    assert check_won(3, [2, 3])
    assert not check_won(3, [3, 4])
    assert not check_won(3, [])


def test_the_holder_clears_away_what_it_overtook_the_oldest_first():
    assert plan_clearing([9, 2, 5, 7], 7) == [2, 5]


def test_a_name_is_forgotten_long_after_its_last_lease_ended():
    end = LEASE.until_ms
    assert not is_forgotten(LEASE, 0, end - 1)
    assert not is_forgotten(LEASE, 0, end + SWEPT_AFTER_MS)
    assert is_forgotten(LEASE, 0, end + SWEPT_AFTER_MS + 1)
    assert not is_forgotten(None, end, end + SWEPT_AFTER_MS)
    assert is_forgotten(None, end, end + SWEPT_AFTER_MS + 1)
