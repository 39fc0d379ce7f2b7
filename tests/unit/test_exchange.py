"""Pieces go to buckets, and each bucket is gathered once, when everything has been spread."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from unittest import mock

import pytest

from jobs.spark import shuffle as exchange
from jobs.spark.engine import LocalEngine
from jobs.spark.shuffle import exchange_in_threads


def spread(work: int) -> Iterator[tuple[int, bytes]]:
    for number in range(work):
        yield number % 7, b"%d." % work * number


def gather(bucket: int, pieces: Iterable[bytes]) -> tuple[int, list[bytes]]:
    return bucket, sorted(pieces)


@pytest.mark.parametrize("in_memory", [1, 1 << 20])
@pytest.mark.parametrize("workers", [1, 4])
def test_every_piece_reaches_its_bucket_whether_it_waits_in_memory_or_on_the_disk(in_memory: int, workers: int):
    with mock.patch.object(exchange, "_IN_MEMORY", in_memory):
        found = dict(exchange_in_threads(spread, range(30), gather, 9, workers))
    pieces = [pair for work in range(30) for pair in spread(work)]
    assert found == {bucket: sorted(piece for at, piece in pieces if at == bucket) for bucket in range(7)}


def test_nothing_is_gathered_before_everything_is_spread():
    left = 20
    lock = threading.Lock()

    def pour(_: int) -> Iterator[tuple[int, bytes]]:
        nonlocal left
        yield 0, b"x"
        with lock:
            left -= 1

    answers = exchange_in_threads(pour, range(20), lambda _, pieces: (left, len(list(pieces))), 1, 4)
    assert list(answers) == [(0, 20)]


def test_what_fails_is_told_and_no_thread_stays():
    def fail(bucket: int, pieces: Iterable[bytes]) -> int:
        raise OSError(f"bucket {bucket} of {len(list(pieces))} pieces")

    engine = LocalEngine()
    with pytest.raises(OSError, match="bucket"):
        list(engine.exchange(spread, range(30), fail, 7))
    with pytest.raises(ValueError, match="no bucket 6"):
        list(engine.exchange(spread, range(30), gather, 6))
    engine.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lakelog-job")]


def test_of_no_works_nothing_is_gathered():
    assert list(exchange_in_threads(spread, [], gather, 3, 2)) == []
