"""How fast a body has to come: by times that a test gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest_api.http1 import WireLimits
from ingest_api.http1.body_rate import Arrival, Pace, Progress, TooSlow, decide_pace

LIMITS = WireLimits()
RATE = LIMITS.body_bytes_per_s
GRACE = LIMITS.body_grace_s


class Body:
    """One body as the looks of a sweep see it."""

    def __init__(self, limits=LIMITS):
        self.pace, self.came, self.now, self.limits = Pace(), 0, 100.0, limits
        self.verdict = self.look()

    def look(self, arrival=Arrival.COUNTED, part=0):
        return decide_pace(self.pace, Progress(1, part, self.came), arrival, self.now, self.limits)

    def go_on(self, seconds, came, arrival=Arrival.COUNTED, part=0):
        self.now += seconds
        self.came += came
        self.verdict = self.verdict or self.look(arrival, part)
        return self.verdict


@pytest.mark.parametrize("gap_s", [0.5, 1.0, 8.0])
def test_a_byte_now_and_then_is_too_slow_when_the_grace_is_over(gap_s):
    body = Body()
    while body.go_on(gap_s, 1) is None:
        assert body.now < 100 + GRACE + gap_s
    assert body.verdict is TooSlow.RATE
    assert body.now >= 100 + GRACE


def test_half_the_rate_lasts_for_twice_the_grace():
    body = Body()
    while body.go_on(0.5, RATE // 4) is None:
        pass
    assert 100 + 2 * GRACE <= body.now <= 100 + 2 * GRACE + 1


@given(st.lists(st.floats(0, 0.95), min_size=1, max_size=60))
def test_a_line_that_fails_for_less_than_the_grace_and_keeps_the_rate_is_never_too_slow(stops):
    body = Body()
    for share in stops:
        stop = share * GRACE
        assert body.go_on(stop, 0) is not TooSlow.RATE
        assert body.go_on(0.5, int((stop + 1) * RATE)) is not TooSlow.RATE


@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 3 * RATE)), max_size=60))
def test_it_is_never_refused_before_the_grace_nor_lasts_beyond_what_came(steps):
    body = Body()
    for seconds, came in steps:
        body.go_on(seconds, came)
        if body.verdict is not None:
            assert body.now - 100 >= GRACE
            return
        assert body.now - 100 < GRACE + body.came / RATE + 1e-6


def test_a_fast_beginning_buys_no_slow_end():
    body = Body()
    assert body.go_on(0.5, 64 * 1024 * RATE) is None
    assert body.go_on(GRACE - 0.1, 1) is None
    assert body.go_on(0.5, 1) is TooSlow.RATE


def test_all_of_a_body_has_a_deadline_however_fast_it_comes():
    body = Body()
    while body.go_on(0.5, 10 * RATE) is None:
        pass
    assert body.verdict is TooSlow.DEADLINE
    assert body.now == 100 + LIMITS.body_deadline_s


def test_a_server_that_does_not_read_does_not_blame_the_client():
    body = Body()
    body.go_on(5, 0)
    assert body.go_on(1e6, 0, Arrival.HELD_UP) is None
    assert body.go_on(1e6, 0, Arrival.HELD_UP) is None
    assert body.go_on(1e6, 0) is None
    assert body.go_on(GRACE - 5.1, 0) is None
    assert body.go_on(0.2, 0) is TooSlow.RATE


def test_a_held_up_body_keeps_what_it_spent():
    body = Body()
    for _ in range(int(LIMITS.body_deadline_s) - 1):
        assert body.go_on(1, RATE) is None
    body.go_on(1e6, 0, Arrival.HELD_UP)
    assert body.go_on(1, RATE) is None
    assert body.go_on(1, RATE) is TooSlow.DEADLINE


def test_a_stream_that_is_not_held_needs_no_more_than_a_byte_in_the_grace():
    body = Body()
    for _ in range(1000):
        assert body.go_on(GRACE - 0.1, 1, Arrival.FREE) is None
    assert body.go_on(GRACE, 0, Arrival.FREE) is TooSlow.RATE


def test_each_part_of_a_stream_has_the_time_of_a_body():
    body = Body()
    for part in range(100):
        assert body.go_on(GRACE - 0.1, 0, part=part) is None
    assert body.go_on(GRACE, 0, part=99) is TooSlow.RATE
