"""Jobs of one process and the session that they start: one, for as long as any of them has it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from jobs.spark.shared_session import OpenSession, Sessions


class Spark:
    def __init__(self) -> None:
        self.stopped = 0

    def stop(self) -> None:
        self.stopped += 1


def own() -> Sessions:
    return Sessions(Spark.stop)


def test_jobs_that_begin_at_once_start_one_session_and_the_last_to_end_stops_it():
    sessions, built, all_there = own(), list[Spark](), threading.Barrier(4)

    def build() -> Spark:
        built.append(Spark())
        return built[-1]

    def begin(_: int) -> OpenSession:
        all_there.wait(30)
        return sessions.open(lambda: None, build)

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(begin, range(4))
    (spark,) = built
    assert {each.spark for each in others} == {first.spark} == {spark}
    for each in others:
        each.close()
    assert spark.stopped == 0
    first.close()
    assert spark.stopped == 1
    begin_again = sessions.open(lambda: None, build)
    assert begin_again.spark is built[-1] is not spark


def test_a_session_that_was_there_is_used_and_left_as_it_is():
    sessions, there = own(), Spark()
    opened = sessions.open(lambda: there, Spark)
    opened.close()
    assert (opened.spark, opened.is_own, there.stopped) == (there, False, 0)


def test_one_that_does_not_start_is_nobodys():
    sessions = own()

    def fail() -> Spark:
        raise RuntimeError("no Java")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="no Java"):
            sessions.open(lambda: None, fail)
    opened = sessions.open(lambda: None, Spark)
    opened.close()
    assert opened.spark.stopped == 1
