"""Topics of several jobs on one server: what a job has to do there, who writes, and who has what the policy says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from delta_log import Log, Record, Settings
from delta_log.maintenance.jobs_api import Maintenance
from jobs.tables import audit
from lakelog import Producer
from tests.support.job_stage import (
    DAY,
    PARTITIONS,
    TOPIC,
    Held,
    Writer,
    by_delta_rs,
    by_http,
    by_spark,
    check_present,
    check_present_so_far,
    check_young_ones_stay,
    create,
    let_time_pass,
    log_starts,
    now_ms,
)
from tests.support.keyed_stage import COMPACT, KeyedWriter, check_compacted, check_compacted_so_far, marks
from tests.support.serving import Server, wait_for


def fold_days_ago(root: Path) -> None:
    """Six files into one, so that nobody reads them any more."""
    with Log.open(root, settings=Settings(upkeep=False), clock_ms=lambda: now_ms() - 3 * DAY) as log:
        log.create_topic(TOPIC, PARTITIONS, {"lakelog.fold.files": 2, "retention.ms": -1})
        for number in range(6):
            log.append(TOPIC, [Record(b"%d" % number, partition=0)])
            log.flush(TOPIC)
        assert log.fold(TOPIC)


class InTurn(Writer):
    """Several as one: each writes a little, and then all wait, as each time makes a file of each partition."""

    pause_s = 1.5

    def __init__(self, writers: Sequence[Writer]) -> None:
        super().__init__()
        self._writers = writers

    @property
    def count(self) -> int:
        return sum(each.count for each in self._writers)

    def go_on(self, more: int = 1) -> None:
        super().go_on(more)

    def _put(self, producer: Producer) -> None:
        for each in self._writers:
            each._put(producer)


class Topic:
    """What a job has to do there, who writes to it, and who has it as the policy says."""

    def __init__(self, job: str, name: str, server: Server, root: Path) -> None:
        self.job, self.name, self._url, self._root = job, name, server.url, root
        self.starts = [0, 0]
        keyed = job == "key_compaction"
        self.writer = KeyedWriter(name) if keyed else Writer(name)
        create(server, name, **(COMPACT if keyed else {"retention_ms": DAY} if job == "retention" else {}))

    def fill(self) -> None:
        """With what the job is to work on: keys that come again, small files, records of the day before yesterday."""
        if isinstance(self.writer, KeyedWriter):
            self.writer.put(self._url, 5)
            return
        self.writer.write(self._url, 3, timestamp=now_ms() - 2 * DAY if self.job == "retention" else None)
        if self.job == "retention":
            self.starts = [len(rows) for rows in self.writer.acked.values()]

    def check_so_far(self) -> None:
        held = by_delta_rs(self._root, self.name)
        if isinstance(self.writer, KeyedWriter):
            check_compacted_so_far(held, self.writer)
        elif self.job == "retention":
            check_young_ones_stay(held, self.writer, self.starts)
        else:
            check_present_so_far(held, self.writer)

    def check(self, read: Callable[[str], Held]) -> None:
        if isinstance(self.writer, KeyedWriter):
            clean = {partition: each.dirty_from for partition, each in enumerate(marks(self._root, self.name))}
            check_compacted(read(self.name), self.writer, clean)
        else:
            check_present(read(self.name), self.writer, self.starts)

    def check_work_is_ended(self) -> None:
        """On what it was filled with."""
        if isinstance(self.writer, KeyedWriter):
            assert min(each.dirty_from for each in marks(self._root, self.name)) >= 25, self.name
        elif self.job == "retention":
            wait_for(lambda: log_starts(self._url, self.name) == self.starts, "that the server notices")
        else:
            snapshot = Maintenance.open(self._root).topic(self.name).ground.table.snapshot
            assert all(snapshot.files(partition)[0].count >= 9 for partition in (0, 1)), self.name


def later_ms() -> int:
    """When what is nobody's may go, and nothing else that is there now."""
    return now_ms() + DAY + DAY // 2


def make_topics(server: Server, root: Path, jobs: Iterable[tuple[str, str]]) -> list[Topic]:
    topics = [Topic(job, name, server, root) for job, name in jobs]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Topic.fill, topics))
    let_time_pass(root)
    return topics


def check_everywhere(topics: Sequence[Topic], server: Server, root: Path, spark: Any) -> None:
    """The server has it within a second or so, and is stopped then. What nobody will ever commit is swept one day."""

    def agrees(topic: Topic) -> bool:
        try:
            topic.check(partial(by_http, server.url))
        except AssertionError:
            return False
        return True

    for topic in topics:
        wait_for(lambda topic=topic: agrees(topic), f"that the server has {topic.name} as the policy says")
    assert server.terminate() == 0
    for topic in topics:
        topic.check(partial(by_delta_rs, root))
        door = Maintenance.open(root).topic(topic.name)
        assert door.orphans(later_ms()) == door.plan_sweep(later_ms())
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda topic: topic.check(partial(by_spark, spark, root)), topics))
    assert audit.main(["--data", str(root), "--all", "--engine", "local"]) == 0
