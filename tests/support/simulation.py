"""A log in a bucket, played from a seed: owners that replace each other, a store that fails, clocks that step.

Everything happens in one thread, in an order that the seed alone decides. A store call is where the others come in: at
any of them whoever made it may be suspended while a newcomer takes the root and works, a job changes a table, a reader
looks, or a request arrives that was on its way for long. So every order of store calls that processes can come to may
come up here, and comes up again from the same seed.
"""

from __future__ import annotations

import hashlib
import random
from contextlib import suppress
from dataclasses import dataclass

from delta_log import Log, LogReader, ProducerStamp, Record
from delta_log.commit.journal_trim import copy_forward
from delta_log.delta.conflicts import TOPIC_ID
from delta_log.delta.file_commits import merge_files
from delta_log.delta.table import Table
from delta_log.model.errors import Corruption, LakelogError, NotOwner, OutcomeUnknown, PlanOutdated, StorageRefused
from delta_log.model.file_bin import Bin
from delta_log.model.schema import FILE_SCHEMA
from delta_log.model.topic_config import ParquetCodec
from tests.support.logs import NOW, crash, replace_settings
from tests.support.simulated_promises import DAY_MS, RETENTION_MS, Promises
from tests.support.simulated_store import BucketRoot, WeakStore

TOPICS, PARTITIONS = ("t", "u"), 2
STEPS = 25
#: How often a call of the store fails, and how often somebody comes in between.
TROUBLE, MEDDLING = (0.0, 0.02, 0.1, 0.2), (0.0, 0.02, 0.05)
OWNERS = 4
STARTS = 5
CONFIG = {"retention.ms": RETENTION_MS, "lakelog.fold.files": 2, "lakelog.history.commits": 100}
#: How far the clock of a process may be off. Back only so far that what it commits is not taken for old.
SKEWS = (0, 0, 60_000, -240_000, 8 * DAY_MS)
#: Producers are remembered for ever: who is forgotten by a clock that steps is told so, and is not what this is about.
SETTINGS = replace_settings(tail_bytes=60_000, producer_expiration_ms=10**15)
#: What may happen next, as often as it is named; and in the middle of a call of the store.
STEP = (
    *("append", "append", "append", "append", "numbered", "numbered", "table", "table", "care", "retain", "retain"),
    *("crash", "restart", "newcomer", "job", "reader", "late", "clocks", "clocks"),
)
AMID = ("newcomer", "newcomer", "job", "reader", "late", "late")
TROUBLES = (StorageRefused, OutcomeUnknown, NotOwner, PlanOutdated, FileNotFoundError)


class SkewedClock:
    """Of one process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.skew = world.chance.choice(SKEWS)

    def __call__(self) -> int:
        return self._world.now_ms + self.skew


@dataclass
class Owner:
    log: Log
    clock: SkewedClock
    replaced: bool = False


@dataclass
class Pending:
    """A numbered request of which nobody knows whether it is stored: it is sent again until that is known."""

    promises: Promises
    value: str
    sequence: int


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now_ms = NOW
        self.trouble = self.meddling = 0.0
        self.amid = False
        self.count = 0
        self.store = WeakStore(self)
        #: by epoch: the last one is the owner, the others were and do not know it yet
        self.owners: list[Owner] = []
        self.promises = [Promises(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
        self.sequences = dict.fromkeys(TOPICS, 0)
        self.pending: dict[str, Pending] = {}
        self.happened: dict[str, int] = {}
        self.story = hashlib.sha256()
        self.step = STEP
        self.may = {
            "append": self.append,
            "numbered": self.append_numbered,
            "table": self.bring_up,
            "care": self.care,
            "retain": self.retain,
            "crash": self.crash,
            "restart": self.restart,
            "newcomer": self.replace,
            "job": self.compact,
            "reader": self.look,
            "late": self.store.deliver,
            "clocks": self.turn_clocks,
        }

    @property
    def owner(self) -> Owner:
        return self.owners[-1]

    def anyone(self) -> Owner:
        """The owner, or who was before."""
        return self.chance.choice(self.owners[-2:])

    def root(self) -> BucketRoot:
        root = BucketRoot(self.store, linger_ms=0)
        root.writes_at_once = 1
        return root

    def note(self, *what: object) -> None:
        self.story.update(repr(what).encode())

    def count_up(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1

    def fails(self) -> bool:
        return self.trouble > 0 and self.chance.random() < self.trouble

    def interrupt(self) -> None:
        if self.amid or self.meddling == 0 or self.chance.random() >= self.meddling:
            return
        self.amid = True
        try:
            what = self.chance.choice(AMID)
            self.count_up(f"amid a call: {what}")
            self.may[what]()
        finally:
            self.amid = False

    def open(self) -> None:
        """A newcomer; where the store keeps it from starting, it tries again when that is better."""
        clock = SkewedClock(self)
        for attempt in range(STARTS):
            try:
                log = Log.open(self.root(), settings=SETTINGS, clock_ms=clock)
                break
            except (StorageRefused, OutcomeUnknown, NotOwner, Corruption):
                self.count_up("a start in vain")
                if attempt:
                    self.calm()
        else:
            raise AssertionError("no start succeeds")
        assert "LOST" not in log.recovery, log.recovery
        self.owners = sorted([*self.owners, Owner(log, clock)], key=lambda owner: owner.log.epoch)
        for owner in self.owners[:-1]:
            owner.replaced = True

    def calm(self) -> None:
        """Until the next step."""
        self.trouble = self.meddling = 0.0

    def replace(self) -> None:
        """Nobody tells the former owner."""
        if len(self.owners) < OWNERS:
            self.open()
            self.send(self.owner, self.chance.choice(self.promises), self.fresh_value())
            self.bring_up(self.owner)

    def crash(self) -> None:
        crash(self.owners.pop().log)
        self.open()

    def restart(self) -> None:
        owner = self.owners.pop()
        with suppress(LakelogError):
            owner.log.close()
        crash(owner.log)
        self.open()

    def fresh_value(self) -> str:
        self.count += 1
        return str(self.count)

    def append(self) -> None:
        self.send(self.anyone(), self.chance.choice(self.promises), self.fresh_value())

    def append_numbered(self) -> None:
        """What is unknown is sent again, under its number, before anything that follows it."""
        promises = self.chance.choice(self.promises)
        topic = promises.topic
        sent = self.pending.pop(topic, None) or Pending(promises, self.fresh_value(), self.sequences[topic])
        if self.send(self.owner, sent.promises, sent.value, ProducerStamp("p", 0, sent.sequence)):
            self.sequences[topic] = sent.sequence + 1
        else:
            self.pending[topic] = sent

    def send(self, owner: Owner, promises: Promises, value: str, stamp: ProducerStamp | None = None) -> bool:
        """Whether it is known to be stored."""
        promises.sent.setdefault(value, self.now_ms)
        record, was_replaced = Record(value.encode(), partition=promises.partition), owner.replaced
        try:
            (offset,) = owner.log.append(promises.topic, [record], producer=stamp).offsets()
        except LakelogError as error:
            self.note(value, type(error).__name__)
            self.count_up(error.outcome)
            if error.outcome == "not_attempted" and stamp is None:
                promises.refused.add(value)
            return False
        self.note(value, offset)
        self.count_up("acknowledged")
        assert not was_replaced, f"a replaced owner acknowledged {value}"
        promises.acknowledge(value, offset)
        return True

    def bring_up(self, owner: Owner | None = None) -> None:
        """As the background does."""
        running = (owner or self.anyone()).log._running
        for live in running.catalog.lives():
            if live.pending and self.chance.random() < 0.8:
                running.tabler._commit(live)

    def care(self) -> None:
        running = self.anyone().log._running
        running.upkeep.run_once()
        with suppress(*TROUBLES):
            copy_forward(running.journal, running.writer, running.catalog.lives(), kept_segments=2)

    def retain(self) -> None:
        with suppress(*TROUBLES):
            if self.owner.log.run_retention(self.chance.choice(TOPICS)):
                self.count_up("retained")

    def compact(self) -> None:
        """A job beside the owner."""
        promises = self.chance.choice(self.promises)
        table = Table(self.store, f"topics/{promises.topic}")
        with suppress(*TROUBLES):
            files = table.snapshot.files(promises.partition) if table.load() else ()
            if len(files) > 1:
                at = self.chance.randrange(len(files) - 1)
                topic_id, bin_ = table.snapshot.configuration[TOPIC_ID], Bin(tuple(files[at : at + 2]))
                merge_files(table, topic_id, bin_, FILE_SCHEMA, ParquetCodec(), lambda: self.now_ms)
                self.count_up("compacted")

    def turn_clocks(self) -> None:
        self.now_ms += self.chance.choice([1000, 60_000, DAY_MS // 2, 2 * DAY_MS])
        self.owner.clock.skew = self.chance.choice(SKEWS)

    def look(self) -> None:
        """As any reader of the tables."""
        with suppress(*TROUBLES):
            reader = LogReader.open(self.root())
            there = reader.topics()
            for promises in self.promises:
                if promises.topic in there:
                    promises.look(reader, self.now_ms)

    def arrive(self) -> None:
        """Calm again, and nothing is on its way any more."""
        self.calm()
        while self.store.late:
            self.store.deliver()

    def check(self) -> None:
        """Calm again, all that was on its way has arrived: everything promised is there, and nobody is shut out."""
        self.arrive()
        self.restart()
        for topic in TOPICS:
            sent = self.pending.pop(topic, None)
            if sent is not None:
                assert self.send(self.owner, sent.promises, sent.value, ProducerStamp("p", 0, sent.sequence))
        for promises in self.promises:
            assert self.send(self.owner, promises, self.fresh_value())
        log = self.owner.log
        log.flush()
        log.run_upkeep()
        assert (log.refuses, log.statistics().closed) == (None, {})
        for promises in self.promises:
            promises.check(log, self.now_ms)
        assert log.close()
        reader = LogReader.open(self.root())
        for promises in self.promises:
            promises.check(reader, self.now_ms)

    def close(self) -> None:
        self.calm()
        for owner in self.owners:
            crash(owner.log)
