"""What a simulated log has promised of one partition, and what it must therefore be from then on."""

from __future__ import annotations

from dataclasses import dataclass, field

from delta_log import Log, LogReader
from tests.support.logs import everything

DAY_MS = 86_400_000
RETENTION_MS = DAY_MS
#: As far as the clocks may be off of those who commit, and of those who delete by age.
TOLERANCE_MS = 10 * 60_000


@dataclass
class Promises:
    """Values are told apart. `sent` has when each was, `at` how old what was seen may be taken for, by offset.

    That goes by its timestamp, or by the commit, whichever is earlier.
    """

    topic: str
    partition: int
    acked: dict[str, int] = field(default_factory=dict[str, int])
    refused: set[str] = field(default_factory=set[str])
    seen: dict[int, str] = field(default_factory=dict[int, str])
    sent: dict[str, int] = field(default_factory=dict[str, int])
    at: dict[int, int] = field(default_factory=dict[int, int])
    start: int = 0

    def acknowledge(self, value: str, offset: int) -> None:
        assert self.seen.get(offset, value) == value, f"offset {offset} was given to {self.seen[offset]} before"
        self.acked[value] = offset
        self.seen[offset] = value

    def look(self, log: Log | LogReader, now_ms: int) -> dict[int, str]:
        """What anybody is shown stays, and nothing goes before its time. Returns what there is by its offset."""
        start = log.offsets(self.topic, self.partition).log_start_offset
        found: dict[int, str] = {}
        for record in everything(log, self.topic, self.partition):
            value = found[record.offset] = (record.value or b"").decode()
            assert value in self.sent, f"{self}: {value} was never sent to it, or to an earlier life of it"
            assert self.seen.setdefault(record.offset, value) == value, f"{self}: offset {record.offset} changed"
            self.at[record.offset] = min(record.timestamp, self.sent[value])
        assert start >= self.start, f"{self}: its log start moved back"
        self.start = start
        for offset, at in self.at.items():
            young = at + RETENTION_MS > now_ms + TOLERANCE_MS
            assert offset >= start or not young, f"{self}: offset {offset} was removed too early"
        return found

    def check(self, log: Log | LogReader, now_ms: int) -> None:
        """All that was promised is there, once; nothing is that was refused."""
        found = self.look(log, now_ms)
        known = log.offsets(self.topic, self.partition)
        assert list(found) == list(range(known.log_start_offset, known.end_offset)), f"{self}: it has holes"
        assert len(set(found.values())) == len(found), f"{self}: it has a record twice"
        assert not self.refused & set(found.values()), f"{self}: it has what was refused"
        for value, offset in self.acked.items():
            assert offset < known.log_start_offset or found.get(offset) == value, f"{self}: {value} is not at {offset}"
        for offset, value in self.seen.items():
            assert offset < known.log_start_offset or found.get(offset) == value, f"{self}: {value} left {offset}"

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
