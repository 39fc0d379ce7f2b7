"""A log against a plain list, through everything that can happen to one: crashes, lost answers, jobs beside it."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from delta_log import Log, ProducerStamp, Record
from delta_log.append.group_commit import Limits
from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.commit.journal_trim import copy_forward
from delta_log.delta.file_commits import merge_files, move_log_start, remove_files
from delta_log.delta.table import Table
from delta_log.model.errors import OutcomeUnknown, StorageRefused
from delta_log.model.file_bin import Bin
from delta_log.model.schema import FILE_SCHEMA
from delta_log.model.topic_config import ParquetCodec
from tests.conftest import examples
from tests.support.log_model import SHAPES, PartitionModel, Sent, TopicModel, as_arrow, check_at_rest
from tests.support.logs import Place, eventually, everything, our_threads, replace_settings

TOPICS, PRODUCERS = ("t", "u"), ("p", "q")
FAULTS = st.tuples(
    st.sampled_from(["create _delta_log", "read _delta_log", "put partition="]),
    st.sampled_from(["refused", "request lost", "answer lost"]),
    st.integers(1, 4),
)
AFTERWARDS = ("follow", "append", "crash", "flush")


class LogMachine(RuleBasedStateMachine):
    on_disk: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        # Nothing happens behind the test's back: tables are committed by `flush` alone.
        self.no_background = mock.patch.object(CommitScheduler, "start", return_value=None)
        self.no_background.start()
        self.directory = tempfile.mkdtemp() if self.on_disk else None
        path = None if self.directory is None else Path(self.directory) / "root"
        self.place = Place(path, segment_size=4096)
        self.model: dict[str, TopicModel] = {}
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.count = 0

    @property
    def log(self) -> Log:
        assert self.place.log is not None
        return self.place.log

    @initialize(tail=st.sampled_from([0, 60_000, 10**8]), memory=st.sampled_from([0, 1000, 10**8]))
    def begin(self, tail: int, memory: int) -> None:
        self.settings = replace_settings(tail_bytes=tail, limits=Limits(memory_bytes=memory))
        self.place.open(self.settings)
        for topic in TOPICS:
            self.create(topic, 2)

    def create(self, topic: str, partitions: int) -> None:
        config = {"retention.ms": 1000, "lakelog.fold.files": 3, "lakelog.commit.bytes": 4096}
        info = self.log.create_topic(topic, partitions, config)
        self.model[topic] = TopicModel(info.id, [PartitionModel() for _ in range(partitions)])

    def records(self, topic: str, shapes: list[tuple[Any, ...]]) -> list[Record]:
        made: list[Record] = []
        for key, place, shift, headers, empty in shapes:
            self.count += 1
            partition = None if place is None else place % len(self.model[topic].partitions)
            timestamp = None if shift is None else self.place.clock() + shift
            made.append(Record(None if empty else b"%d" % self.count, key, timestamp, headers, partition))
        return made

    def send(self, topic: str, records: list[Record], *, arrow: bool, stamp: ProducerStamp | None = None) -> Any:
        if arrow:
            return self.log.append_arrow(topic, as_arrow(records), producer=stamp)
        return self.log.append(topic, records, producer=stamp)

    @rule(topic=st.sampled_from(TOPICS), shapes=SHAPES, arrow=st.booleans(), times=st.sampled_from([1, 1, 1, 30]))
    def append(self, topic: str, shapes: list[Any], arrow: bool, times: int) -> None:
        records = self.records(topic, shapes) * times
        self.model[topic].appended(records, self.send(topic, records, arrow=arrow), self.place.clock())

    @rule(
        topic=st.sampled_from(TOPICS),
        name=st.sampled_from(PRODUCERS),
        requests=st.lists(SHAPES, min_size=1, max_size=4),
    )
    def append_idempotent(self, topic: str, name: str, requests: list[list[Any]]) -> None:
        model = self.model[topic]
        for shapes in requests:
            records, sequence = self.records(topic, shapes), model.next_sequence(name)
            stamp, arrow = ProducerStamp(name, self.epochs[name], sequence), len(shapes) % 2 == 0
            answer = self.send(topic, records, arrow=arrow, stamp=stamp)
            model.appended(records, answer, self.place.clock())
            model.sent.setdefault(name, []).append(Sent(sequence, records, answer, arrow))

    @rule(topic=st.sampled_from(TOPICS), name=st.sampled_from(PRODUCERS), shapes=SHAPES)
    def append_in_a_new_epoch(self, topic: str, name: str, shapes: list[Any]) -> None:
        self.epochs[name] += 1
        for model in self.model.values():
            model.sent.pop(name, None)
        self.append_idempotent(topic, name, [shapes])

    def sent(self) -> list[tuple[TopicModel, str, str]]:
        """Who has sent something, as a repeat needs it."""
        return [(model, topic, name) for topic, model in self.model.items() for name in model.sent]

    @precondition(lambda self: self.sent())
    @rule(who=st.integers(0, 3), back=st.integers(0, 7))
    def repeat(self, who: int, back: int) -> None:
        model, topic, name = self.sent()[who % len(self.sent())]
        sent = model.sent[name]
        back = min(back, len(sent) - 1)
        again = sent[-1 - back]
        stamp = ProducerStamp(name, self.epochs[name], again.sequence)
        answer = self.send(topic, again.records, arrow=again.arrow, stamp=stamp)
        assert answer.duplicate
        if model.is_remembered(name, back):
            assert (answer.ranges, answer.offsets()) == (again.answer.ranges, again.answer.offsets())
            assert (answer.partitions, answer.timestamp) == (again.answer.partitions, again.answer.timestamp)
        else:
            assert answer.ranges == ()

    @rule()
    def crash(self) -> None:
        self.place.crash()
        self.place.open(self.settings)

    @rule()
    def restart(self) -> None:
        self.place.close()
        self.place.open(self.settings)

    @rule(topic=st.none() | st.sampled_from(TOPICS))
    def flush(self, topic: str | None) -> None:
        self.log.flush(topic)

    @rule(
        topic=st.sampled_from(TOPICS),
        fault=FAULTS,
        shapes=SHAPES,
        then=st.lists(st.sampled_from(AFTERWARDS), max_size=3),
    )
    def flush_in_trouble(self, topic: str, fault: tuple[str, Any, int], shapes: list[Any], then: list[str]) -> None:
        (operation, part), (_, what, times) = fault[0].split(), fault
        self.append(topic, shapes, arrow=False, times=1)
        self.place.fail(operation, f"topics/{topic}/{part}", what, times)
        with suppress(StorageRefused, OutcomeUnknown):
            self.log.flush(topic)
        self.place.faults.clear()
        for step in then:
            match step:
                case "follow":
                    self.log._running.catalog.follow(self.log._running.catalog.live(topic))
                case "append":
                    self.append(topic, shapes, arrow=True, times=1)
                case "crash":
                    self.crash()
                case _:
                    self.log.flush(topic)

    @rule(topic=st.sampled_from(TOPICS))
    def fold(self, topic: str) -> None:
        self.log.fold(topic)

    @rule(kept=st.integers(0, 2))
    def upkeep(self, kept: int) -> None:
        running = self.log._running
        self.log.run_upkeep()
        copy_forward(running.journal, running.writer, running.catalog.lives(), kept_segments=kept)

    @rule(by=st.integers(1, 1500), topic=st.sampled_from(TOPICS))
    def time_passes_and_old_records_leave(self, by: int, topic: str) -> None:
        self.place.clock.turn(by)
        for plan in self.log.run_retention(topic):
            partition = self.model[topic].partitions[plan.partition]
            assert partition.start <= plan.new_log_start <= partition.end
            partition.start = plan.new_log_start

    @rule(topic=st.sampled_from(TOPICS), place=st.integers(0, 9), share=st.floats(0, 1))
    def delete_records(self, topic: str, place: int, share: float) -> None:
        partitions = self.model[topic].partitions
        partition = partitions[place % len(partitions)]
        before = int(share * partition.end)
        self.log.delete_records(topic, place % len(partitions), -1 if share == 1 else before)
        partition.start = max(partition.start, partition.end if share == 1 else before)

    @rule(topic=st.sampled_from(TOPICS), place=st.integers(0, 9), share=st.floats(0, 1), shapes=SHAPES)
    def a_job_moves_the_log_start_under_our_commit(
        self, topic: str, place: int, share: float, shapes: list[Any]
    ) -> None:
        model, job = self.model[topic], self.job(topic)
        index = place % len(model.partitions)
        start = int(share * job.snapshot.end(index))
        move_log_start(job, model.id, index, start, self.place.clock)
        below = [file for file in job.snapshot.files(index) if file.last_offset < start]
        remove_files(job, model.id, below, self.place.clock)
        self.append(topic, shapes, arrow=False, times=1)
        self.log.flush(topic)
        self.log._running.catalog.follow(self.log._running.catalog.live(topic))
        model.partitions[index].start = max(model.partitions[index].start, start)

    @rule(topic=st.sampled_from(TOPICS), place=st.integers(0, 9), shapes=SHAPES)
    def a_job_rewrites_files_under_our_commit(self, topic: str, place: int, shapes: list[Any]) -> None:
        model, job = self.model[topic], self.job(topic)
        files = job.snapshot.files(place % len(model.partitions))
        if len(files) > 1:
            merge_files(job, model.id, Bin(tuple(files[:2])), FILE_SCHEMA, ParquetCodec(), self.place.clock)
        self.append(topic, shapes, arrow=False, times=1)
        self.log.flush(topic)

    def job(self, topic: str) -> Table:
        table = Table(self.place.root().store, f"topics/{topic}")
        table.load()
        return table

    @rule(topic=st.sampled_from(TOPICS))
    def add_a_partition(self, topic: str) -> None:
        partitions = self.model[topic].partitions
        if len(partitions) < 4:
            self.log.add_partitions(topic, len(partitions) + 1)
            partitions.append(PartitionModel())

    @rule(topic=st.sampled_from(TOPICS), partitions=st.integers(1, 3), then=st.sampled_from(["", "crash", "restart"]))
    def delete_and_create_again(self, topic: str, partitions: int, then: str) -> None:
        old = self.model[topic].id
        self.log.delete_topic(topic)
        if then:
            del self.model[topic]
            (self.crash if then == "crash" else self.restart)()
        assert topic not in self.log.topics()
        self.create(topic, partitions)
        assert self.model[topic].id != old

    @rule(topic=st.sampled_from(TOPICS), place=st.integers(0, 9), share=st.floats(0, 1), most=st.integers(1, 40))
    def read_somewhere(self, topic: str, place: int, share: float, most: int) -> None:
        partitions = self.model[topic].partitions
        index = place % len(partitions)
        model = partitions[index]
        offset = model.start + int(share * (model.end - model.start))
        fetched = self.log.read(topic, index, offset, max_records=most, max_bytes=most * 50)
        found = list(fetched.records())
        assert found == model.records[offset : offset + len(found)]
        assert len(found) <= most
        assert found or offset == model.end
        assert fetched.next_offset == offset + len(found)

    @rule(topic=st.sampled_from(TOPICS), place=st.integers(0, 9), back=st.integers(-100, 3000))
    def find_by_time(self, topic: str, place: int, back: int) -> None:
        partitions = self.model[topic].partitions
        index = place % len(partitions)
        when = self.place.clock() - back
        assert self.log.offset_at(topic, index, when) == partitions[index].first_at(when)

    @invariant()
    def everything_is_there(self) -> None:
        for topic, model in self.model.items():
            for index, partition in enumerate(model.partitions):
                known = self.log.offsets(topic, index)
                assert (known.log_start_offset, known.end_offset) == (partition.start, partition.end)
                assert everything(self.log, topic, index) == partition.visible()

    def teardown(self) -> None:
        try:
            if self.place.log is not None:
                self.place.close()
                check_at_rest(self.place.reader(), self.model, with_delta_rs=self.on_disk)
        finally:
            self.place.crash()
            self.no_background.stop()
            if self.directory is not None:
                shutil.rmtree(self.directory)


class LocalLogMachine(LogMachine):
    on_disk = True


CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large]


class TestInMemory(LogMachine.TestCase):
    settings = settings(max_examples=examples(150), stateful_step_count=30, suppress_health_check=CHECKS)


class TestOnDisk(LocalLogMachine.TestCase):
    settings = settings(max_examples=examples(20), stateful_step_count=30, suppress_health_check=CHECKS)


def test_no_thread_is_left():
    eventually(lambda: our_threads() == [], "the end of every thread")
