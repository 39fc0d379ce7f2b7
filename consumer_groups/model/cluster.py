"""Cluster: a group's view of the log, with topics, their partitions, and the offsets of each.

It is passed to every decision that needs it. It must not know how a log is read. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from consumer_groups.model.assignment import TopicPartition
from delta_log.model.types import PartitionOffsets

INTERNAL = "__"


class Topic(NamedTuple):
    """A topic; `topic_id` tells it from a later one of the same name."""

    name: str
    topic_id: str
    partitions: int


class Offsets(Protocol):
    """Offsets of partitions: a mapping, or a lookup in the log; None if a partition is missing or cannot be read."""

    def get(self, key: TopicPartition, /) -> PartitionOffsets | None: ...


class PatternError(ValueError):
    """The text is not a regular expression."""


class Cluster:
    """Existing topics. It is replaced when one comes, goes or grows; the matches of a pattern are cached."""

    def __init__(self, topics: Iterable[Topic], custom_assignors: Collection[str] = ()) -> None:
        self.topics = {topic.name: topic for topic in topics}
        self.custom_assignors = frozenset(custom_assignors)
        self.partitions = sum(topic.partitions for topic in self.topics.values())
        self._matching: dict[str, frozenset[str]] = {}

    def get(self, name: str) -> Topic | None:
        return self.topics.get(name)

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(topic.topic_id for topic in self.topics.values())

    def matched(self, pattern: str) -> frozenset[str] | None:
        """Cached matches of a pattern; None if it was not matched yet."""
        return self._matching.get(pattern)

    def matching(self, pattern: str) -> frozenset[str]:
        """Topics whose whole name matches; internal ones never do."""
        found = self._matching.get(pattern)
        if found is None:
            found = self._matching[pattern] = match_names(pattern, self.topics)
        return found


def match_names(pattern: str, names: Iterable[str]) -> frozenset[str]:
    """Match names by RE2, in time linear in the names: no pattern of a client can block the server."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)  # alone first: `a)|(b` is valid only between parentheses
        given = pa.array([name for name in names if not name.startswith(INTERNAL)], pa.string())
        return frozenset(given.filter(pc.match_substring_regex(given, rf"\A(?:{pattern})\z")).to_pylist())
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise PatternError(str(error).removeprefix("Invalid regular expression: ")) from error
