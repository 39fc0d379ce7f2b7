"""Reads the partitions that a poll planned: in turn, at least one record, up to the limits. Run in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

from consumer_groups.decisions.last_attempt import Read
from consumer_groups.decisions.polling import Lookup, Taken
from consumer_groups.model.assignment import TopicPartition
from delta_log import Fetched, LakelogError, Log
from delta_log.fetch.fetch_result import between
from delta_log.model.errors import OffsetOutOfRange, UnknownPartition, UnknownTopic


@dataclass(frozen=True, slots=True)
class Room:
    """Limits of one answer."""

    records: int
    bytes: int

    def take(self) -> Self:
        return self

    def end(self) -> None:
        """Do nothing: this room is not shared."""


class Lender(Protocol):
    """Lends room for one answer at a time, as much as there is; a poll that goes on waiting returns it."""

    def take(self) -> Room: ...
    def end(self) -> None: ...


class Piece(NamedTuple):
    taken: Taken
    fetched: Fetched


def read_in_turn(log: Log, reads: Sequence[Read], room: Room) -> list[Piece]:
    """Read partitions in turn; one not reached comes first next time. Errors raise only if nothing was read.

    Partitions that went away are left out. A topic that has the planned id after a read had it during the read, as ids
    are never reused.
    """
    pieces: list[Piece] = []
    records, size = room.records, room.bytes
    trouble: LakelogError | None = None
    for read in reads:
        if records <= 0 or size <= 0:
            break
        topic, partition = read.partition
        try:
            fetched = log.read(topic, partition, read.offset, max_records=records, max_bytes=size)
            if log.describe_topic(topic).id != read.topic_id:
                continue
        except (OffsetOutOfRange, UnknownTopic, UnknownPartition):
            continue
        except LakelogError as error:
            trouble = error
            continue
        if read.limit is not None and fetched.next_offset > read.limit:
            fetched = _cut(fetched, read.offset, read.limit)
        count, taken = fetched.count, fetched.size
        if pieces and taken > size:
            break
        if fetched.next_offset > read.offset:
            pieces.append(Piece(Taken(read, fetched.next_offset), fetched))
            records, size = records - count, size - taken
    if trouble is not None and not pieces:
        raise trouble
    return pieces


def _cut(fetched: Fetched, offset: int, limit: int) -> Fetched:
    """Records before `limit`; none if there is a gap up to it."""
    batches = [between(batch, offset, limit) for batch in fetched.batches]
    return replace(fetched, batches=[batch for batch in batches if batch.num_rows], next_offset=limit)


def look_up(log: Log, lookups: Sequence[Lookup]) -> dict[TopicPartition, int | None]:
    """First offset at or after each timestamp; partitions that went away are left out."""
    found: dict[TopicPartition, int | None] = {}
    for lookup in lookups:
        try:
            found[lookup.partition] = log.offset_at(*lookup.partition, lookup.timestamp_ms)
        except (UnknownTopic, UnknownPartition):
            continue
    return found
