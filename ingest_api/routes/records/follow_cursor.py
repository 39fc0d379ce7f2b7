"""The position of a client that follows a topic, and its next records: from each ready partition, in turn.

Knows the log; must not know how the client waits, nor the format of records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from delta_log import Fetched, Log
from delta_log.model.errors import OffsetOutOfRange, UnknownTopic
from ingest_api.routes.records.fetch_plan import check_merged, check_position

#: Bytes read in one turn, so that a slow reader holds little memory.
TURN_BYTES: Final = 64 * 1024
#: Most bytes for one partition in an event's id. A turn includes its ids, and each id names every partition.
_ID_BYTES: Final = 24


@dataclass(slots=True)
class Following:
    """`positions` are the next offsets, `due` the partitions with more records, by turn. Used by one task."""

    log: Log
    topic: str
    topic_id: str
    positions: dict[int, int]
    grows: bool
    due: dict[int, None] = field(default_factory=dict[int, None])
    idle: list[int] = field(default_factory=list[int])

    @classmethod
    def begin(cls, log: Log, topic: str, start: Mapping[int, int], seen: Mapping[int, int], *, grows: bool) -> Self:
        """Begin at `start`, or at the positions `seen` by a client that reconnects.

        If records were removed meanwhile, it goes on at the log start offset.
        """
        info = log.describe_topic(topic)
        positions = dict(start)
        for partition in start:
            known = log.offsets(topic, partition)
            if partition in seen:
                positions[partition] = max(seen[partition], known.log_start_offset)
            elif seen and grows:  # added since the client was here
                positions[partition] = known.log_start_offset
            check_position(topic, partition, positions[partition], known)
        return cls(log, topic, info.id, positions, grows, dict.fromkeys(positions))

    def read_turn(self) -> list[Fetched]:
        """Read the next records, about `TURN_BYTES`; raises UnknownTopic if the topic was deleted."""
        self._grow()
        found: list[Fetched] = []
        size, beside = 0, _ID_BYTES * len(self.positions)
        while self.due and size < TURN_BYTES:
            partition = next(iter(self.due))
            del self.due[partition]
            room = TURN_BYTES - size
            fetched = self._read(partition, max(1, room // beside), room)
            self.positions[partition] = fetched.next_offset
            if fetched.next_offset < fetched.end_offset:
                self.due[partition] = None
            else:
                self.idle.append(partition)
            found.append(fetched)
            size += sum(batch.nbytes for batch in fetched.batches) + beside * fetched.count
        self._check_same()  # after the last read: proves that all of it was of the same topic
        return found

    def take_idle(self) -> list[tuple[int, int]]:
        """Return the partitions without more records, each with the offset to wait for, and forget them."""
        idle, self.idle = self.idle, []
        return [(partition, self.positions[partition]) for partition in idle]

    def wake(self, partitions: Iterable[int]) -> None:
        self.due |= dict.fromkeys(partitions)

    def _read(self, partition: int, records: int, size: int) -> Fetched:
        """Read a partition; a reader so slow that records were removed goes on at the log start offset."""
        offset = self.positions[partition]
        try:
            return self.log.read(self.topic, partition, offset, max_records=records, max_bytes=size)
        except OffsetOutOfRange as error:
            if offset > error.log_start_offset:
                raise
            return self.log.read(self.topic, partition, error.log_start_offset, max_records=records, max_bytes=size)

    def _grow(self) -> None:
        """Add new partitions, each from its first record."""
        partitions = self._check_same()
        if self.grows and partitions > len(self.positions):
            check_merged(self.topic, partitions)
            added = sorted(set(range(partitions)) - self.positions.keys())
            self.positions |= dict.fromkeys(added, 0)
            self.wake(added)

    def _check_same(self) -> int:
        """Return the number of partitions; raises UnknownTopic if a new topic has the name."""
        info = self.log.describe_topic(self.topic)
        if info.id != self.topic_id:
            raise UnknownTopic(self.topic)
        return info.partitions
