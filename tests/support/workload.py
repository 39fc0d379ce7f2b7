"""A bit of everything that changes a log, told to a ledger as it happens."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from delta_log import Log, ProducerStamp, Record, Settings
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.model.types import Appended
from tests.support.ledger import Event

SETTINGS = Settings(upkeep=False, segment_bytes=4096)
CONFIG: dict[str, str | int | float | None] = {
    "lakelog.fold.files": 2,
    "lakelog.commit.interval.ms": 100,
    "lakelog.history.commits": 100,
}


@dataclass
class Workload:
    """`now` tells how many steps the disk took; an event counts from the moment at which it is noted with it."""

    log: Log
    now: Callable[[], int]
    seed: int
    round: int = 0
    events: list[tuple[int, Event]] = field(default_factory=list)
    ids: dict[str, str] = field(default_factory=dict)
    sent: int = 0
    sequences: dict[tuple[str, str], int] = field(default_factory=dict)

    def run(self, turns: int) -> None:
        """Goes on until it is done, or until the disk kills it."""
        chance = random.Random(self.seed)
        for topic, partitions in (("orders", 2), ("clicks", 1)):
            if topic not in self.log.topics():
                self.create(topic, partitions)
            self.ids[topic] = self.log.describe_topic(topic).id
        for turn in range(turns):
            self.append(chance.choice(["orders", "clicks"]), chance.randint(1, 4))
            self.append("orders", chance.randint(1, 3), producer=f"producer-{self.round}")
            for (every, at), action in self._duties(chance).items():
                if turn % every == at:
                    action()

    def _duties(self, chance: random.Random) -> dict[tuple[int, int], Callable[[], object]]:
        """What is done in which of so many turns."""
        return {
            (3, 2): lambda: self.log.flush(chance.choice(["orders", "clicks"])),
            (5, 4): self.log.run_upkeep,
            (11, 5): lambda: write_checkpoint(self.log._running.catalog.live("orders").table),
            (13, 7): lambda: self.cut("orders", 0),
            (17, 12): lambda: (self.delete("clicks"), self.create("clicks", 1)),
            (19, 9): lambda: self.append("orders", 1, size=40_000),
            (23, 16): lambda: self.log.alter_topic("orders", {"retention.ms": -1}),
        }

    def create(self, topic: str, partitions: int) -> None:
        self.note("creating", topic)
        self.ids[topic] = self.log.create_topic(topic, partitions, CONFIG).id
        self.note("created", topic, self.ids[topic])

    def delete(self, topic: str) -> None:
        self.note("deleting", topic, self.ids[topic])
        self.log.delete_topic(topic)
        self.note("deleted", topic, self.ids[topic])

    def cut(self, topic: str, partition: int) -> None:
        known = self.log.offsets(topic, partition)
        wanted = (known.log_start_offset + known.end_offset) // 2
        self.note("cutting", topic, self.ids[topic], partition, wanted)
        self.log.delete_records(topic, partition, wanted)

    def append(self, topic: str, count: int, *, producer: str | None = None, size: int = 0) -> None:
        values = [f"{self.round}.{self.sent + index}".ljust(size, "x") for index in range(count)]
        self.sent += count
        records = [Record(value.encode(), key=value.encode()) for value in values]
        stamp = None
        if producer is not None:
            key = (producer, self.ids[topic])
            stamp = ProducerStamp(producer, 0, self.sequences.get(key, 0))
            self.sequences[key] = stamp.sequence + count
        visible: list[int] = []
        ends = [self.log.offsets(topic, p).end_offset for p in range(self.log.describe_topic(topic).partitions)]
        undo = [
            self.log.on_records(topic, partition, end, lambda: visible.append(self.now()))
            for partition, end in enumerate(ends)
        ]
        answer = self.log.append(topic, records, producer=stamp)
        for take_back in undo:
            take_back()
        self._note_answer(topic, values, answer, stamp, min([self.now(), *visible]))

    def note(self, *event: Any, at: int | None = None) -> None:
        self.events.append((self.now() if at is None else at, event))

    def _note_answer(
        self, topic: str, values: list[str], answer: Appended, stamp: ProducerStamp | None, at: int
    ) -> None:
        """What a reader may have seen counts from the moment at which it became visible."""
        offsets = answer.offsets()
        for partition, offset, value in zip(answer.partitions, offsets, values, strict=True):
            self.note("acked", topic, self.ids[topic], partition, offset, [value], at=at)
        if stamp is not None:
            self.note("stored", topic, self.ids[topic], stamp.producer_id, 0, stamp.sequence, values, offsets, at=at)
