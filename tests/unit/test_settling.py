"""When it is tried again whether a sick disk is well."""

from __future__ import annotations

import threading
from itertools import islice

import pytest

from delta_log.journal.settler import LONGEST_PAUSE_S, Settler, pauses
from tests.support.logs import no_thread_left

#: So soon a log is to acknowledge again once its disk is well; the rest is for the attempt.
PROMISED_S = 5.0


def test_a_disk_that_is_well_is_noticed_within_a_second():
    waits = list(islice(pauses(), 1000))
    assert max(waits) <= LONGEST_PAUSE_S <= PROMISED_S / 5
    assert waits == sorted(waits)


def test_a_trouble_that_is_over_at_once_is_noticed_at_once():
    assert sum(islice(pauses(), 2)) < 0.2


def test_attempts_go_on_until_one_says_that_it_is_over():
    made, over = [], threading.Event()

    def attempt() -> bool:
        made.append(1)
        if len(made) == 3:
            over.set()
        return len(made) == 3

    with no_thread_left():
        settler = Settler(attempt)
        assert over.wait(40)
        settler.stop()
    assert len(made) == 3


@pytest.mark.parametrize("moment", ["between two attempts", "amid one"])
def test_behind_a_stop_no_attempt_is_made_or_under_way(moment: str):
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def attempt() -> bool:
        ended.clear()
        begun.set()
        go_on.wait(40)
        ended.set()
        return False

    with no_thread_left():
        settler = Settler(attempt)
        assert begun.wait(40)
        if moment == "amid one":
            threading.Timer(0.05, go_on.set).start()
        else:
            go_on.set()
            assert ended.wait(40)
        settler.stop()
        assert ended.is_set()
        begun.clear()
    assert not begun.is_set()
