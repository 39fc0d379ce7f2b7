"""Records that arrived and were not handed out yet. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.consume.partition_state import Held
from lakelog.consume.record_run import RecordRun
from lakelog.consume.shapes import ConsumerRecord
from lakelog.foundation.deserializers import Deserialize
from lakelog.foundation.errors import NotDeserializable


@dataclass(slots=True, eq=False)
class Run:
    """What is left of a stretch of one partition."""

    held: Held
    turns: int
    stretch: RecordRun
    at: int = 0
    answer: int = 0
    """The number of the one that it came with."""

    @property
    def stale(self) -> bool:
        return self.held.turns != self.turns

    @property
    def left(self) -> int:
        return len(self.stretch) - self.at

    def look(self, most: int) -> RecordRun:
        return self.stretch if self.at == 0 and most >= self.left else self.stretch.part(self.at, self.at + most)

    def hand_out(self, part: RecordRun) -> Handed:
        handed = Handed(self.held, self.turns, part, self.held.position, answer=self.answer)
        self.at += len(part)
        self.held.position = part.last + 1
        return handed


@dataclass(slots=True, eq=False)
class Handed:
    """What a caller was given of one run; `before` is the position until then."""

    held: Held
    turns: int
    stretch: RecordRun
    before: int | None
    records: list[ConsumerRecord] | None = None
    answer: int = 0

    def place(self, used: int) -> None:
        """The caller has looked at so many."""
        if used == 0:
            self.held.position = self.before
        elif used >= len(self.stretch):
            self.held.position = self.stretch.last + 1
        else:
            self.held.position = self.stretch.part(used - 1, used).first + 1


def mark(handed: Sequence[Handed], used: int) -> list[Run]:
    """Say of each partition how far the caller is, who has looked at so many records; what is left is answered."""
    left: list[Run] = []
    behind: list[Held] = []
    for each in handed:
        count = min(used, len(each.stretch))
        used -= count
        if each.turns != each.held.turns:
            continue
        if each.held not in behind:
            each.place(count)
        if count < len(each.stretch):
            behind.append(each.held)
            left.append(Run(each.held, each.turns, each.stretch, count, each.answer))
    return left


class Buffer:
    def __init__(self, key: Deserialize | None = None, value: Deserialize | None = None) -> None:
        self._key, self._value = key, value
        self._runs: deque[Run] = deque()

    def add(self, held: Held, stretch: RecordRun, answer: int = 0) -> None:
        self._runs.append(Run(held, held.turns, stretch, answer=answer))
        held.first = stretch.first if held.first is None else held.first
        held.expected = stretch.last + 1

    def purge(self) -> None:
        """Forget what was sought away from, or is not ours any more."""
        self._runs = deque(run for run in self._runs if not run.stale)

    @property
    def ready(self) -> int:
        """How many records could be handed out now."""
        return sum(run.left for run in self._runs if run.held.readable)

    @property
    def oldest_answer(self) -> int | None:
        """Of what may be handed out next; what is paused is not."""
        return min((run.answer for run in self._runs if not (run.stale or run.held.paused)), default=None)

    def forget_answers(self) -> None:
        """Those of another member have numbers of their own."""
        for run in self._runs:
            run.answer = 0

    def holds(self, held: Held) -> bool:
        return any(run.held is held for run in self._runs)

    def take(self, most: int, *, as_rows: bool) -> list[Handed]:
        """Up to so many records, in the order in which they arrived.

        `as_rows` puts them through the deserializers. Of one that cannot be read, those before it are handed out; it
        is raised when it is the first.
        """
        handed: list[Handed] = []
        for run in list(self._runs):
            if most <= 0:
                break
            if not run.held.readable:
                continue
            part = run.look(most)
            records, error = self._deserialize(part.rows()) if as_rows else (None, None)
            if records is not None and error is not None:
                if not records and not handed:
                    raise error
                part, most = part.part(0, len(records)), 0
            if len(part):
                handed.append(run.hand_out(part))
                handed[-1].records = records
            most -= len(part)
        if any(run.left == 0 for run in self._runs):
            self._runs = deque(run for run in self._runs if run.left)
        return handed

    def put_back(self, handed: Sequence[Handed], used: int) -> None:
        """All but the first `used` records were not looked at: they are the next to be handed out."""
        self._runs.extendleft(reversed(mark(handed, used)))

    def _deserialize(self, records: list[ConsumerRecord]) -> tuple[list[ConsumerRecord], NotDeserializable | None]:
        """Those before the first that cannot be read, and what is wrong with that one."""
        if self._key is None and self._value is None:
            return records, None
        read: list[ConsumerRecord] = []
        for record in records:
            key, value, what = record.key, record.value, "key"
            try:
                if key is not None and self._key is not None:
                    key = self._key(key)
                what = "value"
                if value is not None and self._value is not None:
                    value = self._value(value)
            except Exception as error:  # noqa: BLE001 - whatever a deserializer raises
                failed = NotDeserializable(what, record, error)
                failed.__cause__ = error
                return read, failed
            read.append(
                ConsumerRecord(
                    record.topic, record.partition, record.offset, record.timestamp, key, value, record.headers
                )
            )
        return read, None
