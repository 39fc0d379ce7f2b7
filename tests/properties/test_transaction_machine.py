"""Transactions against a plain list: producers, zombies, time-outs, failures and crashes at every point of a commit.

What is visible is always the model, and what is said of each transaction is what became of it.

Past 300 lines, as a machine is one class.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from delta_log import Ledger, Log, ProducerStamp, Record
from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.model.errors import (
    LakelogError,
    OutcomeUnknown,
    StaleProducerEpoch,
    StorageRefused,
    TransactionDecided,
    TransactionError,
    UnknownStage,
    VersionDecided,
)
from delta_log.model.transaction_bounds import Bounds
from delta_log.stores import MemoryStore
from delta_log.transactions.transaction import Commit
from delta_log.transactions.transaction_id import parse_id
from delta_log.transactions.transaction_log import REMEMBERED, Committed
from tests.conftest import examples
from tests.support.additions import Pages
from tests.support.keyed_rows import TABLES, mark
from tests.support.logs import Place, replace_settings, values_of
from tests.support.racing import be_quicker_to
from tests.support.transaction_model import Numbered, Told

NAMES, PLACES = st.sampled_from(["x", "y"]), (("t", 0), ("t", 1), ("u", 0))
WHICH = st.integers(0, 50)
STAGES = st.sampled_from([None, "a", "b"])
CHOICES = st.sampled_from([None, None, [], ["a"], ["b", "a"]])
#: Where a process dies while a unit is written, and what it may come to.
STEPS, ENDS = ("journal.before_write", "journal.written", "journal.synced"), ("aborted", "committed")
VALUES = st.lists(st.integers(0, 2), min_size=1, max_size=4)


class Died(BaseException):
    """The process, at this point of a write."""


class TransactionMachine(RuleBasedStateMachine):
    kind: ClassVar[Literal["memory", "disk", "bucket"]] = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.no_background = mock.patch.object(CommitScheduler, "start", return_value=None)
        self.no_background.start()
        self.directory = tempfile.mkdtemp() if self.kind == "disk" else None
        path = None if self.directory is None else Path(self.directory) / "root"
        self.place = Place(path, segment_size=4096, store=MemoryStore() if self.kind == "bucket" else None)
        self.numbered: Numbered | None = None
        self.told: list[Told] = []
        self.epochs: dict[str, int] = {}
        self.visible: dict[int, list[bytes]] = {index: [] for index in range(len(PLACES))}
        self.pages: dict[str, int] = {}
        self.versions: dict[str, int] = {}
        self.count = 0

    @property
    def log(self) -> Log:
        assert self.place.log is not None
        return self.place.log

    @initialize(memory=st.sampled_from([0, 60, 10**6]))
    def begin_log(self, memory: int) -> None:
        self.settings = replace_settings(transactions=replace(Bounds(), memory_bytes=memory))
        self.open_log()
        self.log.create_topic("t", 2)
        self.log.create_topic("u")

    def open_log(self) -> None:
        self.place.open(self.settings)
        self.ledger: Ledger = self.log.open_ledger(TABLES)

    def records(self, places: list[int], topic: str) -> list[tuple[int, Record]]:
        made: list[tuple[int, Record]] = []
        for place in places:
            if PLACES[place][0] == topic:
                self.count += 1
                made.append((place, Record(b"%d" % self.count, partition=PLACES[place][1])))
        return made

    def one(self, which: int) -> Told:
        """Mostly one of the newest."""
        return self.told[-1 - which % min(len(self.told), 6)]

    def look_at_time(self) -> None:
        for each in self.told:
            if each.state == "open" and self.place.clock() >= each.deadline_ms:
                each.state = "aborted"

    def fence(self, name: str, epoch: int) -> None:
        self.epochs[name] = epoch
        for each in self.told:
            if each.name == name and each.epoch < epoch and each.state == "open":
                each.state = "aborted"

    @rule(name=NAMES, timeout=st.sampled_from([100, 60_000]), step=st.none() | st.integers(-1, 2))
    def begin(self, name: str, timeout: int, step: int | None) -> None:
        """Some are a version, of which one is committed, and which is joined while it is open."""
        self.look_at_time()
        decided = self.versions.get(name, -1)
        version = None if step is None else max(0, decided + step)
        if version is not None and version <= decided:
            with pytest.raises(VersionDecided):
                self.log.transactions.begin(name, timeout, version)
            return
        begun = self.log.transactions.begin(name, timeout, version)
        joined = [each for each in self.told if (each.name, each.state) == (name, "open") and each.version == version]
        if joined and version is not None:
            assert begun.id == joined[0].id
            return
        assert begun.epoch > self.epochs.get(name, -1)
        self.fence(name, begun.epoch)
        self.told.append(Told(begun.id, name, begun.epoch, self.place.clock() + timeout, version))

    @rule(name=NAMES)
    def open_an_epoch(self, name: str) -> None:
        self.fence(name, self.log.init_producer(name).epoch)

    @precondition(lambda self: self.told)
    @rule(which=WHICH)
    def send_under_an_old_epoch(self, which: int) -> None:
        """Beside any transaction, as a producer of that name."""
        each = self.one(which)
        if each.epoch < self.epochs[each.name]:
            with pytest.raises(StaleProducerEpoch):
                self.log.append("t", [Record(b"late", partition=0)], producer=ProducerStamp(each.name, each.epoch, 0))

    @precondition(lambda self: self.told)
    @rule(which=WHICH, places=VALUES, topic=st.sampled_from(["t", "u"]), again=st.booleans(), stage=STAGES)
    def append(self, which: int, places: list[int], topic: str, again: bool, stage: str | None) -> None:
        self.look_at_time()
        each, made = self.one(which), self.records(places, topic)
        if not made:
            return
        records = [record for _, record in made]
        sent = sum(map(len, each.sent.get((stage, topic), [])))
        stamp = ProducerStamp(each.name, each.epoch, sent)
        if each.state != "open":
            with pytest.raises(LakelogError):
                self.log.transactions.append(each.id, topic, records, stamp, stage)
            return
        for number in range(2 if again else 1):
            staged = self.log.transactions.append(each.id, topic, records, stamp, stage)
            assert (staged.duplicate, staged.count) == (number == 1, len(records))
        each.values += [(stage, place, record.value or b"") for place, record in made]
        each.sent.setdefault((stage, topic), []).append(records)

    @rule(place=st.integers(0, 2))
    def append_beside(self, place: int) -> None:
        self.count += 1
        topic, partition = PLACES[place]
        self.log.append(topic, [Record(b"%d" % self.count, partition=partition)])
        self.visible[place].append(b"%d" % self.count)

    @rule()
    def begin_a_numbered_one(self) -> None:
        """Its epoch before is that of a zombie from now on."""
        before, self.numbered = self.numbered, Numbered(self.log.init_producer("plain").epoch)
        if before is not None:
            assert self.numbered.epoch > before.epoch
            with pytest.raises(StaleProducerEpoch):
                self.log.append("u", [Record(b"late")], producer=ProducerStamp("plain", before.epoch, 0))

    @precondition(lambda self: self.numbered)
    @rule(place=st.integers(0, 2), count=st.integers(1, 3))
    def append_numbered(self, place: int, count: int) -> None:
        one, (topic, partition) = self.numbered, PLACES[place]
        assert one is not None
        sequence = one.following.get(topic, 0)
        made = [Record(b"%d" % (self.count + number), partition=partition) for number in range(1, count + 1)]
        self.count += count
        appended = self.log.append(topic, made, producer=ProducerStamp("plain", one.epoch, sequence))
        one.following[topic], one.last[topic] = sequence + count, (sequence, made, list(appended.offsets()))
        self.visible[place] += [record.value or b"" for record in made]

    @precondition(lambda self: self.numbered and self.numbered.last)
    @rule(which=WHICH)
    def repeat_numbered(self, which: int) -> None:
        """Whatever came between."""
        one = self.numbered
        assert one is not None
        topic = sorted(one.last)[which % len(one.last)]
        sequence, made, offsets = one.last[topic]
        again = self.log.append(topic, made, producer=ProducerStamp("plain", one.epoch, sequence))
        assert (again.duplicate, list(again.offsets())) == (True, offsets)

    def store(self, each: Told, stages: list[str] | None = None, *, beside: bool) -> Committed:
        if not beside:
            return self.log.transactions.commit(each.id, stages)

        with suppress(LakelogError):
            self.log.transactions.add(each.id, Pages(["a page"]))
            each.added = True

        async def store(commit: Commit) -> Any:
            row = mark(each.name, 1, each.epoch)
            return await self.ledger.queue_up([row], commit.appends, decide=commit.decide)

        try:
            return asyncio.run(self.log.transactions.commit_async(each.id, store, stages))
        except LakelogError:
            self.ledger.resume()
            raise

    def committed(self, each: Told, answer: Committed, stages: list[str] | None = None, *, beside: bool) -> None:
        each.state, each.answer = "committed", answer
        if each.version is not None:
            self.versions[each.name] = each.version
        assert answer.version == self.versions.get(each.name)
        counts = each.counting(stages)
        for place, value in counts:
            self.visible[place].append(value)
        if beside:
            self.pages[each.name] = each.epoch
        given = sum(part.count for stored in answer.ranges for part in stored.ranges)
        assert given == len(counts)

    def forgotten(self, each: Told) -> bool:
        """Whether a later commit of the same id took its slot."""
        return any(
            other.name == each.name
            and other.state == "committed"
            and other.epoch > each.epoch
            and (other.epoch - each.epoch) % REMEMBERED == 0
            for other in self.told
        )

    @precondition(lambda self: self.told)
    @rule(which=WHICH, beside=st.booleans(), stages=CHOICES)
    def commit(self, which: int, beside: bool, stages: list[str] | None = None) -> None:
        """Of any, zombies and those that have ended among them."""
        self.look_at_time()
        each = self.one(which)
        beside = beside or each.added
        match each.state:
            case "open" if stages is not None and not {stage for stage, *_ in each.values}.issuperset(stages):
                with pytest.raises(UnknownStage):
                    self.store(each, stages, beside=beside)
            case "open":
                self.committed(each, self.store(each, stages, beside=beside), stages, beside=beside)
            case "committed" if self.forgotten(each):
                with pytest.raises(OutcomeUnknown):
                    self.store(each, beside=beside)
            case "committed":
                assert self.store(each, stages, beside=beside) == each.answer
            case _:
                with pytest.raises((TransactionError, OutcomeUnknown)):
                    self.store(each, beside=beside)

    @precondition(lambda self: self.told)
    @rule(which=WHICH)
    def abort(self, which: int) -> None:
        self.look_at_time()
        each = self.one(which)
        if each.state == "committed":
            with pytest.raises((TransactionError, OutcomeUnknown)):
                self.log.transactions.abort(each.id)
        elif not self.forgotten(each):
            self.log.transactions.abort(each.id)
            each.state = "aborted"

    @precondition(lambda self: self.told)
    @rule(
        which=WHICH,
        beside=st.booleans(),
        error=st.sampled_from([StorageRefused, OutcomeUnknown]),
        then=st.sampled_from(["again", "another write"]),
    )
    def commit_in_trouble(self, which: int, beside: bool, error: type[Any], then: str) -> None:
        """The journal refuses it, or cannot say; nothing of it counts, and it may be tried again.

        By itself it stays open; where that was in doubt, the next write settles it.
        """
        self.look_at_time()
        each, journal = self.one(which), self.log._running.journal
        if each.state != "open":
            return

        def refuse(*_: object) -> None:
            raise error("the journal", "a test")

        with mock.patch.object(journal, "append", refuse), pytest.raises(error):
            self.store(each, beside=beside or each.added)
        if then == "again":
            self.commit(which, beside=beside)
        else:
            self.append_beside(0)

    @precondition(lambda self: self.told)
    @rule(which=WHICH, beside=st.booleans(), at=st.sampled_from(STEPS))
    def die_in_a_commit(self, which: int, beside: bool, at: str) -> None:
        """At each step of the write of its unit: what became of it is asked of what is left."""
        self.look_at_time()
        each = self.one(which)
        if each.state != "open":
            return
        beside = beside or each.added
        with self.dying(at, RuntimeError if beside else Died), suppress(LakelogError, Died):
            self.store(each, beside=beside)
        self.restart_by(self.place.crash, but=each)
        known = self.log.transactions.describe(each.id)
        assert known.state in {"journal.before_write": ["aborted"], "journal.synced": ["committed"]}.get(at, ENDS)
        each.state = "aborted"
        if known.committed is not None:
            self.committed(each, known.committed, beside=beside)

    @precondition(lambda self: self.told)
    @rule(
        which=WHICH,
        beside=st.booleans(),
        stored=st.booleans(),
        asked=st.lists(st.sampled_from(["begin", "an epoch", "commit", "abort", "describe", "upkeep"]), max_size=4),
        between=st.sampled_from(["describe", "abort", "upkeep"]),
        by=st.sampled_from([0, 100]),
    )
    def stay_in_doubt(self, which: int, beside: bool, stored: bool, asked: list[str], between: str, by: int) -> None:
        """Nobody knows whether it was stored, and nothing can be written any more, until the process dies.

        Whatever is asked meanwhile, also `between` where a group is not durable yet, nothing is said of it for sure.
        """
        self.look_at_time()
        each, transactions, journal = self.one(which), self.log.transactions, self.log._running.journal
        if each.state != "open":
            return
        beside = beside or each.added
        real: Callable[..., Any] = journal.append

        def lose(*group: Any) -> None:
            if stored:
                real(*group)
            raise OutcomeUnknown("the journal", "a test")

        def refuse(*_: object) -> None:
            with suppress(LakelogError):
                questions[between]()
            raise StorageRefused("the journal", "a test")

        questions: dict[str, Callable[[], object]] = {
            "begin": lambda: transactions.begin(each.name),
            "an epoch": lambda: self.log.init_producer(each.name),
            "commit": lambda: self.store(each, beside=beside),
            "abort": lambda: transactions.abort(each.id),
            "describe": lambda: transactions.describe(each.id),
            "upkeep": transactions.expire,
        }
        with mock.patch.object(journal, "append", lose), pytest.raises(OutcomeUnknown):
            self.store(each, beside=beside)
        self.place.clock.turn(by)
        with mock.patch.object(journal, "append", refuse):
            for what in [*asked, "describe"]:
                expected = StorageRefused if what in ("begin", "an epoch") else OutcomeUnknown
                with suppress(LakelogError) if what == "upkeep" else pytest.raises(expected):
                    questions[what]()
        self.restart_by(self.place.crash, but=each)
        known = self.log.transactions.describe(each.id)
        assert known.state == ("committed" if stored else "aborted")
        each.state = "aborted"
        if known.committed is not None:
            self.committed(each, known.committed, beside=beside)

    @precondition(lambda self: self.told)
    @rule(which=WHICH)
    def abort_what_is_committed_first(self, which: int) -> None:
        """Both at once, and the commit is quicker."""
        self.look_at_time()
        each, answers = self.one(which), list[Committed]()
        if each.state != "open" or each.added:
            return
        be_quicker_to(self.log, each.id, lambda: answers.append(self.log.transactions.commit(each.id)))
        with pytest.raises(TransactionDecided):
            self.log.transactions.abort(each.id)
        self.committed(each, answers[0], beside=False)

    def dying(self, at: str, how: type[BaseException]) -> AbstractContextManager[Any]:
        """Only files know the step in the middle: elsewhere what is written is there."""
        journal = self.log._running.journal
        real: Callable[..., Any] = journal.append

        def reach(step: str) -> None:
            if step == at:
                raise how

        def append(frames: Any, payloads: Any) -> None:
            reach("journal.before_write")
            real(frames, payloads)
            raise how

        return (
            mock.patch.object(journal, "_at", reach)
            if self.kind == "disk"
            else mock.patch.object(journal, "append", append)
        )

    def restart_by(self, how: Callable[[], None], but: Told | None = None) -> None:
        how()
        for each in self.told:
            if each.state == "open" and each is not but:
                each.state = "aborted"
        self.open_log()

    @rule()
    def crash(self) -> None:
        self.restart_by(self.place.crash)

    @rule()
    def restart(self) -> None:
        self.restart_by(self.place.close)

    @rule(topic=st.none() | st.sampled_from(["t", "u"]))
    def flush(self, topic: str | None) -> None:
        self.log.flush(topic)

    @rule()
    def say_which_versions(self) -> None:
        """Rows are stored again, and nothing is decided by it."""
        self.log.transactions.complete()

    @rule(by=st.sampled_from([50, 100, 30_000]))
    def time_passes(self, by: int) -> None:
        self.place.clock.turn(by)

    @invariant()
    def what_is_visible_is_the_model(self) -> None:
        for index, at in enumerate(PLACES):
            assert values_of(self.log, *at) == self.visible[index]
        assert {row[0]: row[2] for row in self.ledger.load("__marks")} == self.pages

    @invariant()
    def what_is_said_of_each_is_what_became_of_it(self) -> None:
        self.look_at_time()
        for each in self.told[-12:]:
            assert parse_id(each.id) is not None
            try:
                assert self.log.transactions.describe(each.id).state == each.state
            except OutcomeUnknown:
                assert self.forgotten(each)

    def teardown(self) -> None:
        try:
            self.place.crash()
        finally:
            self.no_background.stop()
            if self.directory is not None:
                shutil.rmtree(self.directory)


class LocalTransactionMachine(TransactionMachine):
    kind = "disk"


class BucketTransactionMachine(TransactionMachine):
    kind = "bucket"


CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]


class TestInMemory(TransactionMachine.TestCase):
    settings = settings(max_examples=examples(50), stateful_step_count=25, suppress_health_check=CHECKS)


class TestOnDisk(LocalTransactionMachine.TestCase):
    settings = settings(max_examples=examples(10), stateful_step_count=25, suppress_health_check=CHECKS)


class TestInABucket(BucketTransactionMachine.TestCase):
    settings = settings(max_examples=examples(20), stateful_step_count=25, suppress_health_check=CHECKS)
