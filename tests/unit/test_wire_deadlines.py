"""When a connection has taken too long: with a clock of our own, without waiting."""

import pytest

from ingest_api.http1 import WireLimits
from ingest_api.http1.body_rate import Progress
from ingest_api.http1.deadlines import Phase, Seen, Verdict, Watched, decide_verdict

LIMITS = WireLimits()
BOUNDED = [
    (Phase.FIRST, 20.0, Verdict.CLOSE),
    (Phase.HEAD, 10.0, Verdict.REFUSE_HEAD),
    (Phase.BODY, 20.0, Verdict.REFUSE_BODY),
    (Phase.STREAM, 20.0, Verdict.REFUSE_BODY),
    (Phase.IDLE, 75.0, Verdict.CLOSE),
    (Phase.LINGER, 2.0, Verdict.CLOSE),
]


class Watch:
    """One connection under the eyes of a sweep."""

    def __init__(self):
        self.watched = Watched()

    def __call__(self, now, phase, mark=(0, 0, 0), taken=None):
        return decide_verdict(self.watched, Seen(phase, Progress(*mark), taken), now, LIMITS)


@pytest.mark.parametrize(("phase", "most_s", "verdict"), BOUNDED)
def test_a_phase_ends_when_its_time_is_over_and_not_before(phase, most_s, verdict):
    look = Watch()
    assert look(100.0, phase) is Verdict.LEAVE
    assert look(100.0 + most_s - 0.01, phase) is Verdict.LEAVE
    assert look(100.0 + most_s, phase) is verdict


@pytest.mark.parametrize(
    ("phase", "most_s", "verdict"), [row for row in BOUNDED if row[0] not in (Phase.BODY, Phase.STREAM)]
)
def test_progress_and_another_phase_begin_the_time_anew(phase, most_s, verdict):
    look = Watch()
    look(0.0, phase)
    assert look(most_s, phase, (0, 0, 1)) is Verdict.LEAVE
    assert look(most_s, Phase.WORKING, (0, 0, 1)) is Verdict.LEAVE
    assert look(most_s + 1, phase, (0, 0, 1)) is Verdict.LEAVE
    assert look(2 * most_s + 0.99, phase, (0, 0, 1)) is Verdict.LEAVE
    assert look(2 * most_s + 1, phase, (0, 0, 1)) is verdict


def test_a_body_that_takes_its_time_in_all_is_refused_as_late():
    look, now, came = Watch(), 0.0, 0
    while (verdict := look(now, Phase.BODY, (1, 0, came))) is Verdict.LEAVE:
        now, came = now + 5, came + 5 * LIMITS.body_bytes_per_s
    assert (now, verdict) == (LIMITS.body_deadline_s, Verdict.REFUSE_LATE_BODY)


@pytest.mark.parametrize(("gained", "verdict"), [(0, Verdict.REFUSE_BODY), (10**9, Verdict.REFUSE_LATE_BODY)])
def test_who_was_refused_is_not_refused_again_at_the_next_look(gained, verdict):
    """Its request is gone, and what is left of the connection lingers."""
    look, now, came = Watch(), 0.0, 0
    while (refused := look(now, Phase.BODY, (1, 0, came))) is Verdict.LEAVE:
        now, came = now + 5, came + gained
    assert refused is verdict
    assert look(now, Phase.LINGER, (1, 0, came)) is Verdict.LEAVE
    assert look(now + LIMITS.linger_s, Phase.LINGER, (1, 0, came)) is Verdict.CLOSE


def test_what_is_slow_without_a_body_has_no_rate():
    look = Watch()
    for now in range(10):
        assert look(now, Phase.HEAD) is Verdict.LEAVE
    assert look(10.0, Phase.BODY, (1, 0, 0)) is Verdict.LEAVE
    assert look(29.9, Phase.BODY, (1, 0, 0)) is Verdict.LEAVE
    assert look(30.0, Phase.BODY, (1, 0, 0)) is Verdict.REFUSE_BODY


def test_the_same_phase_of_another_request_begins_anew():
    look = Watch()
    look(0.0, Phase.BODY, (1, 0, 7))
    assert look(20.0, Phase.BODY, (2, 0, 7)) is Verdict.LEAVE


def test_an_app_has_all_the_time_it_wants():
    look = Watch()
    look(0.0, Phase.WORKING)
    assert look(1e9, Phase.WORKING) is Verdict.LEAVE


def test_a_reader_is_cut_off_when_it_took_nothing_for_so_long():
    look = Watch()
    look(0.0, Phase.WORKING, taken=5)
    assert look(59.9, Phase.WORKING, taken=5) is Verdict.LEAVE
    assert look(60.0, Phase.WORKING, taken=5) is Verdict.ABORT


def test_a_reader_that_takes_a_little_has_more_time():
    look = Watch()
    look(0.0, Phase.WORKING, taken=5)
    assert look(59.9, Phase.WORKING, taken=6) is Verdict.LEAVE
    assert look(119.8, Phase.WORKING, taken=6) is Verdict.LEAVE
    assert look(119.9, Phase.WORKING, taken=6) is Verdict.ABORT


def test_a_reader_for_whom_nothing_waits_is_not_slow():
    look = Watch()
    look(0.0, Phase.WORKING, taken=5)
    look(59.0, Phase.WORKING, taken=None)
    assert look(1e6, Phase.WORKING, taken=None) is Verdict.LEAVE
    assert look(1e6, Phase.WORKING, taken=5) is Verdict.LEAVE


def test_a_slow_reader_is_cut_off_in_any_phase():
    look = Watch()
    look(0.0, Phase.IDLE, taken=5)
    assert look(60.0, Phase.IDLE, taken=5) is Verdict.ABORT
