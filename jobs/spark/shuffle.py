"""Shuffle: works are spread into buckets, and the buckets gathered, on one machine's disk, or by Spark's shuffle.

    spread(work)            →  (bucket, piece), …
    gather(bucket, pieces)  →  an answer, once every work has been spread

A bucket is gathered by one worker, from pieces in any order; in memory are the pieces of one bucket for each worker. It
knows neither what pieces are nor what is made of them.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, TypeVar

from jobs.foundation.threads import in_threads
from jobs.spark.failure_causes import in_words
from jobs.spark.jvm import SparkGone

__all__ = ["Gather", "Spread", "cancel", "exchange_by_spark", "exchange_in_threads"]

W = TypeVar("W")
R = TypeVar("R")
Spread = Callable[[W], Iterable[tuple[int, bytes]]]
Gather = Callable[[int, Iterable[bytes]], R]

#: Beyond this size, pieces are on the disk of this machine, in an unnamed file, which no crash leaves behind.
_IN_MEMORY: Final = 64 * 1024 * 1024


class _Pieces:
    """Pieces of all buckets, one after the other in a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._end = 0
        self._places: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._lock = threading.Lock()

    def buckets(self) -> list[int]:
        return sorted(self._places)

    def add(self, bucket: int, piece: bytes) -> None:
        with self._lock:
            self._file.seek(self._end)
            self._file.write(piece)
            self._places[bucket].append((self._end, len(piece)))
            self._end += len(piece)

    def of(self, bucket: int) -> Iterator[bytes]:
        for place, size in self._places[bucket]:
            with self._lock:
                self._file.seek(place)
                piece = self._file.read(size)
            yield piece


def exchange_in_threads(
    spread: Spread[W], works: Iterable[W], gather: Gather[R], buckets: int, workers: int
) -> Generator[R]:
    with SpooledTemporaryFile(_IN_MEMORY, prefix="lakelog-job-") as file:
        pieces = _Pieces(file)

        def pour(work: W) -> None:
            for bucket, piece in spread(work):
                if not 0 <= bucket < buckets:
                    raise ValueError(f"there is no bucket {bucket}")
                pieces.add(bucket, piece)

        for _ in in_threads(pour, works, workers):
            pass
        yield from in_threads(lambda bucket: gather(bucket, pieces.of(bucket)), pieces.buckets(), workers)


def exchange_by_spark(
    context: Any, group: str, spread: Spread[W], works: Iterable[W], gather: Gather[R], buckets: int, workers: int
) -> Generator[R]:
    """Shuffle once; then run a job for each bucket, so that an answer does not wait for others."""
    listed = list(works)
    with in_words():
        spread_out = context.parallelize(listed, max(1, len(listed))).flatMap(spread).partitionBy(buckets, int)
    answers = spread_out.mapPartitionsWithIndex(partial(_gather_pairs, gather))

    def call(bucket: int) -> list[R]:
        with in_words():
            context.setJobGroup(group, group, interruptOnCancel=True)
            return context.runJob(answers, list, [bucket])

    for found in in_threads(call, range(buckets), workers, abandon=partial(cancel, context, group)):
        yield from found


def cancel(context: Any, group: str) -> None:
    """Cancel the Spark jobs of a group, unless Spark has ended."""
    with suppress(SparkGone), in_words():
        context.cancelJobGroup(group)


def _gather_pairs(gather: Gather[R], bucket: int, pairs: Iterable[tuple[int, bytes]]) -> Iterator[R]:
    yield gather(bucket, (piece for _, piece in pairs))
