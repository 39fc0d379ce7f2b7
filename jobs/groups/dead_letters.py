"""Dead letters of a job: as rows of a request, and the ranges in which their records are read again. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from consumer_groups.model.dead_letter import Letter, Origin, configs_for_letters, origin_of, without_value
from jobs.source.positions import TopicPartition

__all__ = [
    "GivenUp",
    "Letter",
    "Origin",
    "as_rows",
    "configs_for_letters",
    "cut",
    "origin_of",
    "stretches",
    "without_value",
]

_LETTERS: Final = 1_000
_BYTES: Final = 4 * 1024 * 1024
#: Gap up to which unneeded records are read rather than sending another request.
_GAP: Final = 200
#: Maximum number of records in one range, as they are held in memory.
_MOST: Final = 1_000
_HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_SCHEMA: Final = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32()), ("headers", _HEADERS)]
)


class GivenUp(NamedTuple):
    """A record that is to become a letter."""

    of: TopicPartition
    offset: int
    reason: str
    attempts: int = 1


def as_rows(letters: Sequence[Letter], topic: str, group: str, partitions: int) -> pa.RecordBatch:
    """Rows of a request; a letter goes to the partition of the same number, modulo the number of partitions."""
    rows = [
        {
            "key": letter.key,
            "value": letter.value,
            "partition": letter.origin.partition % partitions,
            "headers": [{"key": name, "value": value} for name, value in letter.all_headers(topic, group)],
        }
        for letter in letters
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


def cut(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """Cut letters into lists that fit into a request."""
    some: list[Letter] = []
    size = 0
    for letter in letters:
        some.append(letter)
        size += len(letter.key or b"") + len(letter.value or b"")
        if len(some) == _LETTERS or size >= _BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def stretches(given_up: Iterable[GivenUp]) -> Iterator[list[GivenUp]]:
    """Group sorted records into ranges of a partition that lie close together, without duplicates."""
    some: list[GivenUp] = []
    for each in given_up:
        if some and each.of == some[-1].of and each.offset == some[-1].offset:
            continue
        if some and (each.of != some[-1].of or each.offset > some[-1].offset + _GAP or len(some) == _MOST):
            yield some
            some = []
        some.append(each)
    if some:
        yield some
