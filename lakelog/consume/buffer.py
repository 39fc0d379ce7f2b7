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
    """The rest of a run of records of one partition."""

    held: Held
    turns: int
    stretch: RecordRun
    at: int = 0
    answer: int = 0
    """Number of the answer that it came with."""

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
    """Records of one run that a caller got; `before` is the position before that."""

    held: Held
    turns: int
    stretch: RecordRun
    before: int | None
    records: list[ConsumerRecord] | None = None
    answer: int = 0

    def place(self, used: int) -> None:
        """Set the position after the caller used the first `used` records."""
        if used == 0:
            self.held.position = self.before
        elif used >= len(self.stretch):
            self.held.position = self.stretch.last + 1
        else:
            self.held.position = self.stretch.part(used - 1, used).first + 1


def mark(handed: Sequence[Handed], used: int) -> list[Run]:
    """Set each partition's position to where a caller is that used `used` records; returns the runs left."""
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
        """Drop records of partitions that were sought elsewhere or are no longer assigned."""
        self._runs = deque(run for run in self._runs if not run.stale)

    @property
    def ready(self) -> int:
        """Number of records that could be handed out now."""
        return sum(run.left for run in self._runs if run.held.readable)

    @property
    def oldest_answer(self) -> int | None:
        """Smallest answer number among records that may be handed out; paused partitions do not count."""
        return min((run.answer for run in self._runs if not (run.stale or run.held.paused)), default=None)

    def forget_answers(self) -> None:
        """Reset answer numbers: another member has its own."""
        for run in self._runs:
            run.answer = 0

    def holds(self, held: Held) -> bool:
        return any(run.held is held for run in self._runs)

    def take(self, most: int, *, as_rows: bool) -> list[Handed]:
        """Take up to `most` records, in order of arrival.

        `as_rows`: deserialize them. If one cannot be deserialized, those before it are handed out; if it is the first,
        the error is raised.
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
        """Return all but the first `used` records; they are handed out next."""
        self._runs.extendleft(reversed(mark(handed, used)))

    def _deserialize(self, records: list[ConsumerRecord]) -> tuple[list[ConsumerRecord], NotDeserializable | None]:
        """Deserialize; returns the records before the first bad one, and that one's error."""
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
            except Exception as error:  # noqa: BLE001 - a deserializer may raise anything
                failed = NotDeserializable(what, record, error)
                failed.__cause__ = error
                return read, failed
            read.append(
                ConsumerRecord(
                    record.topic, record.partition, record.offset, record.timestamp, key, value, record.headers
                )
            )
        return read, None
