"""Base of jobs that work on tables, topic by topic.

A job plans by topic, and prints its plan before it carries it out; with `--dry-run` it stops there. A failure on one
topic does not stop the others. It knows no job, and of tables only the public interface.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from delta_log.maintenance.jobs_api import Maintenance, TopicMaintenance
from delta_log.model.errors import LakelogError, UnknownTopic
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.syscalls import Probe, no_probe
from jobs.foundation.progress import Progress
from jobs.foundation.result import Counts, Summary, one_sentence
from jobs.runner.job_main import (
    DATA_VARIABLE,
    JobParser,
    add_options,
    add_topics,
    carry_out,
    milliseconds,
    say,
    say_if_room,
)
from jobs.spark.engine import ENGINES, Engine, EngineName, has_spark, open_engine
from jobs.spark.jvm import SparkGone

__all__ = ["Job", "Run", "TopicProblem", "build_parser", "milliseconds", "run_job"]


class TopicProblem(Exception):
    """Failures on a topic: the first one, and their number."""

    def __init__(self, first: LakelogError, count: int) -> None:
        more = f" (and {count - 1} more)" if count > 1 else ""
        super().__init__(f"{one_sentence(first)}{more}")
        self.first = first


class _NoEngine(Exception):
    """The engine cannot be started, so that no topic can be worked on; `why` is the cause."""

    def __init__(self, why: LakelogError) -> None:
        super().__init__(str(why))
        self.why = why


@dataclass(slots=True)
class Run:
    """Run of a job. `now_ms`: the time on which host and store agree."""

    options: argparse.Namespace
    maintenance: Maintenance
    progress: Progress
    probe: Probe
    summary: Summary
    now_ms: int = 0
    _engine: Engine | None = field(default=None)

    @property
    def dry_run(self) -> bool:
        return self.options.dry_run

    @property
    def engine(self) -> Engine:
        """Engine, started when first needed: a run without work does not wait for it.

        If it does not start, that ends the whole run rather than the work on one topic.
        """
        if self._engine is None:
            self.progress.show(f"starting the {self.options.engine} engine")
            self.summary.engine = self.options.engine
            try:
                self._engine = open_engine(self.options.engine, f"lakelog {self.options.job}", self.options.master)
            except LakelogError as error:
                raise _NoEngine(error) from error
        return self._engine

    def say(self, lines: Iterable[object]) -> None:
        """Print lines. Failing to print is an error only in a dry run, which does nothing else."""
        if self.dry_run:
            say(self.progress, lines)
        else:
            say_if_room(self.progress, lines)

    def tell(self, topic: str, counts: Counts) -> None:
        """Set the counts of a topic for the summary; they count however its work ends."""
        self.summary.topics[topic] = counts

    def count(self, topic: str, **more: int) -> None:
        """Add to the counts of a topic."""
        before = self.summary.topics[topic]
        self.summary.topics[topic] = {**before, **{name: before[name] + done for name, done in more.items()}}

    def close(self) -> None:
        self.progress.wipe()
        if self._engine is not None:
            self._engine.close()


@dataclass(frozen=True, slots=True)
class Job:
    """A job on tables. `choose` may leave out topics without work; `work` plans, prints, carries out and counts one.

    `counts`: meaning of each count. `beside`: with all topics, returns errors under names that are no topics. `alone`:
    no server may run meanwhile; `spark`: executors can do a part of the work; `looks`: it never changes anything.
    """

    name: str
    summary: str
    work: Callable[[Run, TopicMaintenance], None]
    counts: Mapping[str, str]
    alone: bool = False
    looks: bool = False
    spark: bool = True
    default_engine: Callable[[], EngineName] = lambda: "spark" if has_spark() else "local"
    configure: Callable[[argparse.ArgumentParser], None] = lambda _: None
    check: Callable[[Run], None] = lambda _: None
    choose: Callable[[Run, Sequence[str]], Sequence[str]] = lambda _, names: names
    beside: Callable[[Run], Mapping[str, LakelogError]] = lambda _: {}


def build_parser(job: Job) -> argparse.ArgumentParser:
    parser = JobParser(prog=f"python -m jobs.{job.name}", description=job.summary, allow_abbrev=False)
    parser.missing = _missing
    add_options(parser, job.name, spark=job.spark)
    add_topics(parser)
    if job.spark:
        parser.add_argument(
            "--engine", choices=ENGINES, default=job.default_engine(), help="who does the work (default: %(default)s)"
        )
    else:
        parser.set_defaults(engine="local", master=None)
    job.configure(parser)
    return parser


def _missing(options: argparse.Namespace) -> str:
    return "" if options.data else f"--data, or the variable {DATA_VARIABLE}, must name the root"


def run_job(
    job: Job,
    argv: Sequence[str] | None = None,
    *,
    clock_ms: Callable[[], int] = wall_clock_ms,
    probe: Probe = no_probe,
) -> int:
    """Run a job; returns its exit code. Wrong options end the process with 2, as in argparse."""
    parser = build_parser(job)
    options = parser.parse_args(argv)
    summary = Summary(job.name, options.data, "local", options.dry_run)
    problems: dict[str, BaseException] = {}

    def work() -> None:
        _run(job, options, summary, problems, clock_ms=clock_ms, probe=probe)

    return carry_out(summary, work, problems, debug=options.debug)


def _run(
    job: Job,
    options: argparse.Namespace,
    summary: Summary,
    problems: dict[str, BaseException],
    *,
    clock_ms: Callable[[], int],
    probe: Probe,
) -> None:
    run = Run(options, Maintenance.open(options.data, clock_ms=clock_ms, probe=probe), Progress(), probe, summary)
    summary.root = run.maintenance.location
    holding = run.maintenance.hold() if job.alone and not run.dry_run else nullcontext()
    try:
        with holding:
            _work_on_topics(job, run, summary, problems)
    except _NoEngine as stopped:
        raise stopped.why from stopped.why.__cause__
    finally:
        run.close()


def _work_on_topics(job: Job, run: Run, summary: Summary, problems: dict[str, BaseException]) -> None:
    run.now_ms = run.maintenance.agreed_now(only_to_look=run.dry_run or job.looks)
    job.check(run)
    names = job.choose(run, _names(run))
    for number, name in enumerate(names, 1):
        run.progress.show(f"{job.name}: {name} ({number} of {len(names)})")
        try:
            job.work(run, run.maintenance.topic(name))
        except UnknownTopic as error:
            # It existed at the start. With --all a topic that is gone is no error.
            if run.options.topic:
                problems[name], summary.errors[name] = error, one_sentence(error)
        except TopicProblem as problem:
            problems[name], summary.errors[name] = problem.first, str(problem)
        except (BrokenPipeError, _NoEngine, SparkGone):
            raise
        except Exception as error:
            if run.options.debug and not isinstance(error, LakelogError):
                raise
            problems[name], summary.errors[name] = error, one_sentence(error)
    if not run.options.topic:
        for name, error in job.beside(run).items():
            problems[name], summary.errors[name] = error, one_sentence(error)


def _names(run: Run) -> list[str]:
    """Names of the topics to work on, without duplicates; UnknownTopic, before any work, if one does not exist."""
    there = run.maintenance.topics()
    asked: list[str] | None = run.options.topic
    if asked is None:
        return there
    for name in asked:
        if name not in there:
            raise UnknownTopic(name)
    return list(dict.fromkeys(asked))
