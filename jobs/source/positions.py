"""Positions in partitions, limits of a query, and both in the JSON of Spark's Kafka source. Pure.

A position is the offset of the next record to read. As JSON it is `{"topic": {"0": 12}}`, in all versions of a query's
checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

from jobs.source.errors import InvalidOption

EARLIEST: Final = -2
LATEST: Final = -1
_SHOWN: Final = 60
_MOST: Final = (1 << 63) - 1


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


Positions = dict[TopicPartition, int]
Times = dict[TopicPartition, int]


class Range(NamedTuple):
    """Readable offsets of a partition: from `start` to below `end`."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Everywhere:
    """A limit that is the same in every partition: EARLIEST or LATEST."""

    mark: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """A limit by partition: a position, EARLIEST or LATEST."""

    offsets: Positions


@dataclass(frozen=True, slots=True)
class AtTime:
    """A limit at the first record at or after a time: one for all partitions, or one for each."""

    time_ms: int | Times

    def of(self, partition: TopicPartition) -> int | None:
        return self.time_ms.get(partition) if isinstance(self.time_ms, dict) else self.time_ms


Limit = Everywhere | AtOffsets | AtTime


def to_json(positions: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Convert to JSON, sorted, so that equal positions give equal text."""
    found: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(positions):
        found.setdefault(topic, {})[str(partition)] = positions[TopicPartition(topic, partition)]
    return found


def from_json(found: Mapping[str, Mapping[str, int]]) -> Positions:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in found.items()
        for partition, offset in partitions.items()
    }


def parse_numbers(option: str, text: str, *, least: int, what: str) -> Positions:
    """Parse a user's `{"topic": {"0": 12}}`: a number for each partition."""
    found: Positions = {}
    for topic, partitions in _object(option, text).items():
        if not isinstance(partitions, dict):
            raise InvalidOption(option, f'topic {topic!r} needs {what} for each partition, as in {{"0": 12}}')
        for partition, number in cast("dict[str, object]", partitions).items():
            if type(number) is not int or not least <= number <= _MOST:
                raise InvalidOption(option, f"{number!r} for {topic}-{partition} is not {what}")
            found[TopicPartition(topic, _partition(option, partition))] = number
    if not found:
        raise InvalidOption(option, "it names no partition")
    return found


def parse_partitions(option: str, text: str) -> frozenset[TopicPartition]:
    """Parse a user's `{"topic": [0, 1]}`."""
    found: set[TopicPartition] = set()
    for topic, partitions in _object(option, text).items():
        if not isinstance(partitions, list) or not partitions:
            raise InvalidOption(option, f"topic {topic!r} needs a list of partitions, as in [0, 1]")
        each_of = cast("list[object]", partitions)
        found |= {TopicPartition(topic, _partition(option, partition)) for partition in each_of}
    if not found:
        raise InvalidOption(option, "it names no partition")
    return frozenset(found)


def _object(option: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text, object_pairs_hook=_unique)
    except ValueError as error:
        raise InvalidOption(option, f"{_short(text)} is not JSON that can be used: {error}") from None
    if not isinstance(found, dict):
        raise InvalidOption(option, f"{_short(text)} is not a JSON object of topics")
    return cast("dict[str, Any]", found)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name comes twice")
    return found


def _partition(option: str, given: object) -> int:
    if isinstance(given, str) and given.isascii() and given.isdigit():
        given = int(given)
    if type(given) is not int or not 0 <= given < 1 << 31:
        raise InvalidOption(option, f"{given!r} is not a partition")
    return given


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
