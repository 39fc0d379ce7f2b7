"""Runs of consecutive records of one partition, as rows; `arrow` has them as batches. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any, Final, Protocol

from lakelog.consume.shapes import ConsumerRecord

_OFFSET: Final = attrgetter("offset")


class RecordRun(Protocol):
    """Consecutive records of one partition; never empty."""

    @property
    def first(self) -> int: ...
    @property
    def last(self) -> int: ...
    def __len__(self) -> int: ...
    def part(self, begin: int, end: int | None = None) -> RecordRun: ...
    def index_of(self, offset: int) -> int:
        """Index of the first record at or after an offset."""
        ...

    def rows(self) -> list[ConsumerRecord]: ...


class Rows:
    """A run of records as they were decoded."""

    __slots__ = ("_records",)

    def __init__(self, records: list[ConsumerRecord]) -> None:
        self._records = records

    @property
    def first(self) -> int:
        return self._records[0].offset

    @property
    def last(self) -> int:
        return self._records[-1].offset

    def __len__(self) -> int:
        return len(self._records)

    def part(self, begin: int, end: int | None = None) -> Rows:
        return Rows(self._records[begin:end])

    def index_of(self, offset: int) -> int:
        return bisect_left(self._records, offset, key=_OFFSET)

    def rows(self) -> list[ConsumerRecord]:
        return self._records


def find_runs(count: int, key_at: Callable[[int], Any]) -> Iterator[tuple[Any, int, int]]:
    """Yield each run's key, begin and end: the server keeps the records of a partition together."""
    begin = 0
    while begin < count:
        key = key_at(begin)
        end = bisect_left(range(count), True, begin + 1, key=lambda place: key_at(place) != key)  # noqa: FBT003
        yield key, begin, end
        begin = end
