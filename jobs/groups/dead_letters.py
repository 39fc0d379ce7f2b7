"""Dead letters of a job: as rows of a request, and in which stretches their records are read again. Pure."""

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
#: So many records are rather read in vain than that there is another request.
_GAP: Final = 200
#: And so many are held at once.
_MOST: Final = 1_000
_HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_SCHEMA: Final = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("partition", pa.int32()), ("headers", _HEADERS)]
)


class GivenUp(NamedTuple):
    """A record that is to be a letter."""

    of: TopicPartition
    offset: int
    reason: str
    attempts: int = 1


def as_rows(letters: Sequence[Letter], topic: str, group: str, partitions: int) -> pa.RecordBatch:
    """As a request stores them: letters of a partition go to the one of its number, as far as there are so many."""
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
    """So few at a time as go into a request."""
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
    """Of records in the order of their places: those of a partition that lie close together, each place once."""
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
