"""A place in the log: a partition of a topic, and an offset in it. Pure."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next one to read. `metadata` is a note that was committed with it."""

    offset: int
    metadata: str = ""
