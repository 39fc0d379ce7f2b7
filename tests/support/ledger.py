"""What a log promised, and whether it keeps it: fed with events, compared with a log after a crash.

An event is a plain tuple, so that it can come over a pipe from a process that is dead by now:

    creating  topic                            sent, not yet answered
    created   topic, id
    deleting  topic, id                        sent, not yet answered
    deleted   topic, id
    cutting   topic, id, partition, offset     the log start may move up to there
    acked     topic, id, partition, base, values
    seen      topic, id, partition, base, values        by a reader
    stored    topic, id, producer, epoch, sequence, values, offsets     of an idempotent producer

Every value is sent once: two equal ones in a topic are a record that was stored twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltalake import DeltaTable

from delta_log import Log, LogReader, ProducerStamp, Record
from delta_log.model.errors import UnknownTopic

Event = Sequence[Any]
Place = tuple[int, int]


class Broken(AssertionError):
    """The log does not hold what it promised."""


@dataclass
class Life:
    """One topic from its creation to its deletion."""

    topic: str
    id: str
    state: str = "there"
    values: dict[Place, str] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    requests: list[tuple[str, int, int, list[str], list[int]]] = field(default_factory=list)


class Ledger:
    """All promises up to now."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.lives: dict[str, Life] = {}
        self.creating: set[str] = set()
        for event in events:
            self.take(event)

    def take(self, event: Event) -> None:
        kind, topic, *rest = event
        if kind == "creating":
            self.creating.add(topic)
            return
        life = self.lives.setdefault(rest[0], Life(topic, rest[0]))
        match kind, *rest[1:]:
            case ["created"]:
                self.creating.discard(topic)
            case ["deleting"]:
                life.state = "going"
            case ["deleted"]:
                life.state = "gone"
            case ["cutting", partition, offset]:
                life.starts[partition] = max(offset, life.starts.get(partition, 0))
            case ["acked" | "seen", partition, base, values]:
                for offset, value in enumerate(values, base):
                    _note(life, partition, offset, value)
            case ["stored", producer, epoch, sequence, values, offsets]:
                life.requests.append((producer, epoch, sequence, list(values), list(offsets)))
            case _:
                raise ValueError(event)

    def check(self, log: Log | LogReader) -> None:
        """Everything promised is there, once, at its place; what is there now is promised from now on."""
        topics = {life.topic for life in self.lives.values()} | self.creating
        for topic in sorted(topics | set(log.topics())):
            living = [life for life in self.lives.values() if life.topic == topic and life.state == "there"]
            try:
                info = log.describe_topic(topic)
            except UnknownTopic:
                _demand(not living, f"topic {topic} is gone")
                continue
            life = self.lives.get(info.id)
            if life is None:
                _demand(topic in self.creating and not living, f"nobody created topic {topic} with id {info.id}")
                life = self.lives[info.id] = Life(topic, info.id)
            _demand(life.state != "gone", f"topic {topic} came back from the dead")
            _demand(not living or living == [life], f"topic {topic} lost its life {living}")
            values = [value for partition in range(info.partitions) for value in _check(log, life, partition)]
            _demand(len(set(values)) == len(values), f"{topic} holds a record twice")

    def check_repeats(self, log: Log, *, newest: int = 5) -> None:
        """The last requests of every idempotent producer, sent again, are answered as they were the first time."""
        for life in self.lives.values():
            if life.state != "there":
                continue
            by_producer: dict[tuple[str, int], list[tuple[str, int, int, list[str], list[int]]]] = {}
            for request in life.requests:
                by_producer.setdefault(request[:2], []).append(request)
            for (producer, epoch), requests in by_producer.items():
                for _, _, sequence, values, offsets in requests[1 - newest :]:
                    records = [Record(value.encode(), key=value.encode()) for value in values]
                    answer = log.append(life.topic, records, producer=ProducerStamp(producer, epoch, sequence))
                    _demand(answer.duplicate, f"{producer} {sequence} was stored again in {life.topic}")
                    _demand(answer.offsets() == offsets, f"{producer} {sequence} moved to {answer.offsets()}")

    def check_tables(self, log: Log | LogReader) -> None:
        """delta-rs reads the same rows as the log; everything must be in the tables."""
        for topic in log.topics():
            partitions = log.describe_topic(topic).partitions
            ours = sorted(
                (partition, offset, value)
                for partition in range(partitions)
                for offset, value in scan(log, topic, partition).items()
            )
            rows = DeltaTable(log.table_location(topic)).to_pyarrow_table(columns=["partition", "offset", "value"])
            starts = [log.offsets(topic, partition).log_start_offset for partition in range(partitions)]
            columns = (rows.column(name).to_pylist() for name in ("partition", "offset", "value"))
            theirs = sorted(
                (partition, offset, value.decode())
                for partition, offset, value in zip(*columns, strict=True)
                if offset >= starts[partition]
            )
            _demand(ours == theirs, f"delta-rs reads other rows of {topic}: {_difference(ours, theirs)}")


def scan(log: Log | LogReader, topic: str, partition: int) -> dict[int, str]:
    """Offset to value; fails where an offset comes twice or out of order."""
    found: dict[int, str] = {}
    last = -1
    for fetched in log.scan(topic, partition):
        for record in fetched.records():
            _demand(record.offset > last, f"{topic}-{partition} {record.offset} comes behind {last}")
            last = record.offset
            found[last] = (record.value or b"").decode()
    return found


def _check(log: Log | LogReader, life: Life, partition: int) -> list[str]:
    name = f"{life.topic}-{partition}"
    known = log.offsets(life.topic, partition)
    start, end = known.log_start_offset, known.end_offset
    _demand(start <= life.starts.get(partition, 0), f"{name} starts at {start}, which nobody asked for")
    found = scan(log, life.topic, partition)
    _demand(list(found) == list(range(start, end)), f"{name} has holes between {start} and {end}: {list(found)}")
    for (of, offset), value in life.values.items():
        if of == partition and offset >= start:
            _demand(found.get(offset) == value, f"{name} {offset} should be {value}, is {found.get(offset)}")
    for offset, value in found.items():
        _note(life, partition, offset, value)
    return list(found.values())


def _note(life: Life, partition: int, offset: int, value: str) -> None:
    before = life.values.setdefault((partition, offset), value)
    _demand(before == value, f"{life.topic}-{partition} {offset} was given to {before} and to {value}")


def _difference(ours: list[Any], theirs: list[Any]) -> str:
    return f"only ours {sorted(set(ours) - set(theirs))[:5]}, only theirs {sorted(set(theirs) - set(ours))[:5]}"


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)
