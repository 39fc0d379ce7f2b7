"""Jobs whose work executors do, and the processes that have a part in it: driver and JVM, and their Python workers.

One process stands at all of the steps at once, each with a topic of its own beside a server that goes on writing, when
it is killed. A worker that stands then may be quicker than the daemon that is to end it, and write what it has in hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from delta_log.maintenance.compaction.superseded import gather
from delta_log.maintenance.jobs_api import Maintenance
from delta_log.runtime.syscalls import Probe, no_probe
from jobs.tables import compaction, key_compaction, retention
from tests.support.executor_fates import Fate, Fated
from tests.support.job_stage import TOPIC, by_delta_rs
from tests.support.job_topics import InTurn, Topic, check_everywhere, fold_days_ago, later_ms, make_topics
from tests.support.processes import running
from tests.support.serving import serving, wait_for
from tests.support.standing_jobs import Standing, end, kill_at

DIED = "a task of Spark failed: a Python worker died amid its work, as one does that is killed, or for want of memory"
JOBS: dict[str, tuple[ModuleType, Sequence[str]]] = {
    "compaction": (compaction, ("--min-age", "0s")),
    "retention": (retention, ()),
    "key_compaction": (key_compaction, ()),
}


class Case(NamedTuple):
    """A job that is killed at a step of its driver, once a worker died at another, or while one stands there."""

    job: str
    step: str
    hit: int
    fate: tuple[str, str] | None = None

    @property
    def topic(self) -> str:
        return "-".join([self.job, self.step, str(self.hit), *(self.fate or ())])

    def standing(self, directory: Path, root: Path) -> Standing:
        fate = self.fate and Fate(*self.fate, str(directory / self.topic))  # type: ignore[arg-type]
        return Standing(f"jobs.{self.job}", self.step, self.hit, words(self.job, root, self.topic), fate)


#: Of steps between which nothing is stored one is here.
CASES = (
    Case("compaction", "-", 0, ("store.staged", "late")),
    Case("compaction", "store.staged", 1),
    Case("compaction", "table.committed", 2),
    Case("compaction", "compaction.committed", 1, ("store.staged", "dies")),
    Case("retention", "retention.start_moved", 1),
    Case("retention", "retention.files_left", 1),
    Case("key_compaction", "key_compaction.mapped", 1),
    Case("key_compaction", "-", 0, ("store.staged", "late")),
    Case("key_compaction", "-", 0, ("key_compaction.file_written", "stands")),
    Case("key_compaction", "store.staged", 1),
    Case("key_compaction", "table.committed", 1),
    Case("key_compaction", "key_compaction.committed", 2, ("key_compaction.file_written", "dies")),
)


def words(job: str, root: Path, *topics: str) -> list[str]:
    named = [word for topic in topics for word in ("--topic", topic)]
    return ["--data", str(root), "--engine", "spark", *named, *JOBS[job][1]]


def run(job: str, root: Path, topics: Iterable[str], capsys: Any, probe: Probe = no_probe) -> tuple[int, str]:
    """In this process, whose session the job takes; its exit code, and what it says is wrong."""
    capsys.readouterr()
    code = JOBS[job][0].main(words(job, root, *topics), probe=probe)
    said = capsys.readouterr()
    summary = json.loads(said.out.splitlines()[-1])
    assert not any(each.get("given_up") for each in summary["topics"].values()), summary
    return code, said.err


def end_work(topics: Sequence[Topic], root: Path, capsys: Any) -> None:
    for job in JOBS:
        assert run(job, root, [topic.name for topic in topics if topic.job == job], capsys) == (0, "")
    for topic in topics:
        topic.check_work_is_ended()


def test_jobs_that_are_killed_with_their_jvm_take_nothing_away_and_the_next_ones_end_their_work(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """What workers that are late write then, behind the next run, is nobody's."""
    root, folded = tmp_path / "root", tmp_path / "folded"
    fold_days_ago(folded)
    before = by_delta_rs(folded)
    late: set[int] = set()
    with serving(root) as server:
        topics = make_topics(server, root, ((case.job, case.topic) for case in CASES))
        standing = [case.standing(tmp_path, root) for case in CASES]
        deletion = Standing("jobs.retention", "retention.file_deleted", 1, words("retention", folded, TOPIC))
        try:
            with InTurn([topic.writer for topic in topics]).writing(server.url):
                late = kill_at([*standing, deletion])
                assert len(late) == len(running(late)) == 2
                for topic in topics:
                    topic.check_so_far()
                end_work(topics, root, capsys)
                for each in standing:
                    if each.fate is not None:
                        each.fate.let_go()
                wait_for(lambda: not running(late), "that late workers end")
        finally:
            end(late)
        check_everywhere(topics, server, root, spark)
    for case in CASES:
        if case.fate is not None and "late" in case.fate:
            assert Maintenance.open(root).topic(case.topic).plan_sweep(later_ms()), f"{case.topic}: it was not so late"
    assert len(list(folded.glob("topics/*/partition=0/*.parquet"))) == 6
    assert run("retention", folded, [TOPIC], capsys) == (0, "")
    assert len(list(folded.glob("topics/*/partition=0/*.parquet"))) == 1
    assert by_delta_rs(folded) == before


def test_a_job_whose_worker_dies_says_so_in_a_sentence_and_the_next_one_ends_its_work(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """In this session, as on one machine, Spark does nothing again: the topic is left as it was found."""
    root = tmp_path / "root"
    monkeypatch.setattr(retention, "_TOPICS_OF_A_TASK", 1)
    with serving(root) as server:
        topics = make_topics(server, root, ((job, f"{job}.{number}") for job in JOBS for number in (0, 1)))

        def kill(job: str, step: str, function: Any = None) -> None:
            """A worker of its first topic; with a function, as that has its answer."""
            fate, names = Fate(step, "dies", str(tmp_path / f"{job}-{step}")), [f"{job}.0", f"{job}.1"]
            with monkeypatch.context() as patch:
                if function is not None:
                    patch.setattr(JOBS[job][0], step, Fated(function, fate))
                code, said = run(job, root, names, capsys, no_probe if function else fate)
            whose = job if job == "retention" else f"{job} of {names[0]}"
            assert (fate.pid is not None, code, said) == (True, 1, f"{whose}: {DIED}\n")
            for topic in topics:
                topic.check_so_far()

        with InTurn([topic.writer for topic in topics]).writing(server.url):
            kill("compaction", "store.staged")
            kill("retention", "find_due", retention.find_due)
            kill("key_compaction", "gather", gather)
            kill("key_compaction", "key_compaction.file_written")
            end_work(topics, root, capsys)
        check_everywhere(topics, server, root, spark)
