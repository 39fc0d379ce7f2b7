"""A group as its clients see it, and what must be true of what they see.

Clients know only what they were answered. The laws are said in plain sets of offsets: which were given to somebody,
which somebody was done with, and which were passed on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from consumer_groups.decisions.polling import MANUAL, FetchPlan, Taken
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster, Topic
from consumer_groups.model.options import Options
from consumer_groups.model.records import OffsetRecord, PositionRecord, Record, decode_record, encode_record, latest
from consumer_groups.state.decision import Decision, apply, begin, undo
from consumer_groups.state.invariants import check_invariants
from consumer_groups.state.state import Group, Groups
from delta_log.model.types import PartitionOffsets

#: A partition of one topic, not of the next one of its name.
Spot = tuple[str, int]


class WriteFailed(Exception):
    """The records could not be made durable: the client is told that nothing was stored."""


@dataclass
class Client:
    """One process. `exact` ones send the generation and the number of the answer that they were last told."""

    name: str
    options: Options
    exact: bool = False
    alive: bool = True
    generation: int = 0
    answer: int = 0
    #: offsets that it was given and has not come back from
    given: dict[Spot, set[int]] = field(default_factory=dict)
    #: behind what it was last given, and in which generation it was told so
    told: dict[TopicPartition, tuple[str, int, int]] = field(default_factory=dict)
    #: what it sought past: it is passed as soon as it reads on there and commits
    sought: dict[Spot, set[int]] = field(default_factory=dict)
    plan: FetchPlan | None = None
    lost: bool = False

    @property
    def says(self) -> dict[str, Any]:
        return {"generation": self.generation, "received": self.answer} if self.exact else {}


@dataclass
class Seen:
    """What happened in one partition so far."""

    base: int | None = None
    done: set[int] = field(default_factory=set)
    excused: set[int] = field(default_factory=set)
    log_start: int = 0
    committed: int = 0
    #: given up, and not passed by a commit since: nobody is to be given these
    dead: set[int] = field(default_factory=set)
    #: given up at any time: nobody who has not gone back is given these
    buried: set[int] = field(default_factory=set)
    reader: tuple[str, int] = ("", -1)

    def check_passed(self, offset: int, also: set[int], why: str) -> None:
        missing = set(range(max(self.base or 0, self.log_start), offset)) - self.done - self.excused - also
        assert not missing, f"{why} at {offset} passes {sorted(missing)}"


class World:
    """The log, the clock, the disk, and the coordinator's state."""

    def __init__(self) -> None:
        self.now = 1_000_000
        self.groups = Groups()
        self.written: list[Record] = []
        self.before = 0
        self.fail_next = False
        self.topics: dict[str, Topic] = {}
        self.ends: dict[TopicPartition, PartitionOffsets] = {}
        self.seen: dict[Spot, Seen] = {}
        self.births = self.lives = 0
        self.clients: list[Client] = []
        #: what was given for the last time
        self.alone: set[tuple[str, int, int]] = set()

    @property
    def group(self) -> Group:
        return self.groups.get("g")

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.topics.values())

    def spot(self, partition: TopicPartition) -> Spot:
        return self.topics[partition.topic].topic_id, partition.partition

    def at(self, partition: TopicPartition) -> Seen:
        return self.seen.setdefault(self.spot(partition), Seen())

    def create(self, name: str, partitions: int) -> None:
        self.births += 1
        self.topics[name] = Topic(name, f"id{self.births}", partitions)
        self.ends |= {TopicPartition(name, each): PartitionOffsets(0, 0) for each in range(partitions)}

    def grow(self, name: str) -> None:
        topic = self.topics[name]
        self.topics[name] = topic._replace(partitions=topic.partitions + 1)
        self.ends[TopicPartition(name, topic.partitions)] = PartitionOffsets(0, 0)

    def delete(self, name: str) -> None:
        topic = self.topics.pop(name)
        for each in range(topic.partitions):
            del self.ends[TopicPartition(name, each)]

    def move(self, partition: TopicPartition, *, append: int = 0, trim: int = 0) -> None:
        known = self.ends[partition]
        end = known.end_offset + append
        start = self.at(partition).log_start = min(known.log_start_offset + trim, end)
        self.ends[partition] = PartitionOffsets(start, end)

    def do(self, decision: Decision[Any], by: Client | None = None, *, done: bool = False) -> Any:
        """Decide, apply, write, answer. `done` if the request says that its client is done with what it was given."""
        if done and by is not None:
            self.come_back(by)
        displaced = apply(self.groups, decision)
        check_invariants(self.group)
        if self.fail_next and decision.records:
            self.fail_next = False
            undo(self.groups, displaced, self.now)
            self.check_rebuilt()
            raise WriteFailed
        self.before = len(self.written)
        self.written += decision.records
        self._check_records(decision.records)
        if by is not None:
            by.generation = decision.generation
        return decision.reply

    def come_back(self, client: Client) -> None:
        if not client.lost:
            for spot, offsets in client.given.items():
                self.seen.setdefault(spot, Seen()).done |= offsets
            client.given = {}
        if client.exact:
            client.lost = False

    def deliver(self, client: Client, accepted: tuple[Taken, ...], answer: int, *, lose: bool) -> None:
        for taken in accepted:
            read, seen = taken.read, self.at(taken.read.partition)
            spot = self.spot(read.partition)
            went_back = any(spot in each.sought for each in self.clients) or (client.lost and client.exact)
            given = set(range(read.offset, taken.next_offset))
            assert went_back or not seen.buried & given, "what was given up is delivered"
            assert not seen.dead & set(range(read.offset, taken.next_offset)), "a dead letter is delivered"
            assert read.limit is None or taken.next_offset <= read.limit, "it is read too far"
            if read.last_try:
                assert (len(accepted), len(given)) == (1, 1), "it is not alone"
                self.alone.add((*spot, read.offset))
            sought = client.sought.get(spot, set())
            mine = client.given.get(spot, set()) | sought
            seen.check_passed(read.offset, mine, f"{client.name} reading {read.partition}")
            seen.excused |= sought & set(range(read.offset))
            if read.epoch != MANUAL:
                name, epoch = seen.reader
                assert read.epoch > epoch or (name, epoch) == (client.name, read.epoch), "one reader at a time"
                seen.reader = client.name, read.epoch
        if lose and client.exact:
            client.lost = True
            return
        client.answer = answer
        for taken in accepted:
            partition, spot = taken.read.partition, self.spot(taken.read.partition)
            client.given.setdefault(spot, set()).update(range(taken.read.offset, taken.next_offset))
            client.told[partition] = spot[0], taken.next_offset, client.generation

    def restart(self, *, compacted: bool) -> None:
        """Another process: what was written is all there is."""
        records = latest(self.written) if compacted else self.written
        self.groups = Groups(decode_record(encode_record(record)) for record in records)
        self.lives += 1
        begin(self.groups, self.now, self.lives)

    def check_rebuilt(self) -> None:
        for records in (self.written, latest(self.written)):
            rebuilt = Groups(records).get("g")
            assert rebuilt.table == self.group.table
            assert rebuilt.owners == self.group.owners

    def _check_records(self, records: tuple[Record, ...]) -> None:
        ids = {topic.topic_id: name for name, topic in self.topics.items()}
        for record in records:
            if isinstance(record, OffsetRecord) and record.topic_id in ids:
                partition = TopicPartition(record.topic, record.partition)
                assert 0 <= record.next_offset <= self.ends[partition].end_offset, "within the log"
                seen = self.at(partition)
                seen.base = record.next_offset if seen.base is None else seen.base
                seen.dead -= set(range(record.next_offset))
                if record.next_offset < seen.committed:
                    seen.buried.clear()
                seen.committed = record.next_offset
                seen.check_passed(record.next_offset, set(), f"a commit of {partition}")
            if isinstance(record, PositionRecord) and record.resolved is not None and record.topic_id in ids:
                self._check_resolved(TopicPartition(record.topic, record.partition), record.resolved)

    def _check_resolved(self, partition: TopicPartition, resolved: int) -> None:
        """The reset policy speaks where nothing was begun, or where it is gone from the log."""
        seen = self.at(partition)
        if seen.base is None:
            seen.base = resolved
        open_ones = set(range(seen.base, resolved)) - seen.done - seen.excused
        kept = self.kept.get(self.spot(partition))
        begun_anew = open_ones and kept is not None and kept >= seen.log_start
        assert not begun_anew, f"{partition} was begun at {kept}, and is begun anew at {resolved}"
        seen.excused |= open_ones

    @property
    def kept(self) -> dict[Spot, int]:
        """Where anybody would begin, as it was written; without this decision."""
        kept: dict[Spot, int] = {}
        for record in latest(self.written[: self.before]):
            if isinstance(record, OffsetRecord):
                kept.setdefault((record.topic_id, record.partition), record.next_offset)
            if isinstance(record, PositionRecord) and record.resolved is not None:
                kept[record.topic_id, record.partition] = record.resolved
        return kept
