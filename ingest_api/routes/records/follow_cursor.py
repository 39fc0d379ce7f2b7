"""Where somebody who follows a topic is, and what he is given next: of each partition that has something, in turn.

Knows the log; must not know how anybody waits, nor what records look like on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from delta_log import Fetched, Log
from delta_log.model.errors import OffsetOutOfRange, UnknownTopic
from ingest_api.routes.records.fetch_plan import check_merged, check_position

#: What is read in one turn, so that whoever reads slowly holds little.
TURN_BYTES: Final = 64 * 1024
#: What an event's id says of one partition at most; a turn is counted with its ids, as each names every partition.
_ID_BYTES: Final = 24


@dataclass(slots=True)
class Following:
    """`positions` is where to go on, `due` who has something, in the order of their turns. Used by one task."""

    log: Log
    topic: str
    topic_id: str
    positions: dict[int, int]
    grows: bool
    due: dict[int, None] = field(default_factory=dict[int, None])
    idle: list[int] = field(default_factory=list[int])

    @classmethod
    def begin(cls, log: Log, topic: str, start: Mapping[int, int], seen: Mapping[int, int], *, grows: bool) -> Self:
        """From `start` on, or from where somebody was who comes back.

        Who was away for so long that records left meanwhile goes on behind them.
        """
        info = log.describe_topic(topic)
        positions = dict(start)
        for partition in start:
            known = log.offsets(topic, partition)
            if partition in seen:
                positions[partition] = max(seen[partition], known.log_start_offset)
            elif seen and grows:  # it was added since
                positions[partition] = known.log_start_offset
            check_position(topic, partition, positions[partition], known)
        return cls(log, topic, info.id, positions, grows, dict.fromkeys(positions))

    def read_turn(self) -> list[Fetched]:
        """What comes next, about as much as a turn holds; UnknownTopic when the topic is gone."""
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
        self._check_same()  # after the last read: what was read before is of the topic that it was
        return found

    def take_idle(self) -> list[tuple[int, int]]:
        """The partitions that have nothing more, each with the offset to wait for."""
        idle, self.idle = self.idle, []
        return [(partition, self.positions[partition]) for partition in idle]

    def wake(self, partitions: Iterable[int]) -> None:
        self.due |= dict.fromkeys(partitions)

    def _read(self, partition: int, records: int, size: int) -> Fetched:
        """Who reads so slowly that records leave in front of him goes on behind them, too."""
        offset = self.positions[partition]
        try:
            return self.log.read(self.topic, partition, offset, max_records=records, max_bytes=size)
        except OffsetOutOfRange as error:
            if offset > error.log_start_offset:
                raise
            return self.log.read(self.topic, partition, error.log_start_offset, max_records=records, max_bytes=size)

    def _grow(self) -> None:
        """Partitions that were added since begin at their first record."""
        partitions = self._check_same()
        if self.grows and partitions > len(self.positions):
            check_merged(self.topic, partitions)
            added = sorted(set(range(partitions)) - self.positions.keys())
            self.positions |= dict.fromkeys(added, 0)
            self.wake(added)

    def _check_same(self) -> int:
        """How many partitions the topic has; a new one of the same name is another one."""
        info = self.log.describe_topic(self.topic)
        if info.id != self.topic_id:
            raise UnknownTopic(self.topic)
        return info.partitions
