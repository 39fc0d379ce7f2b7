"""Compaction: merges small files of a partition into large ones, with the same records at the same offsets.

    plan bins of neighbouring files  →  executors write one file for each bin  →  this process commits them one by one

A bin whose files another process has replaced is given up. It knows plans and orders; not how, or where, a file is
written.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Final

from delta_log.maintenance.compaction.merge_files import MergeAnswer, MergeOrder, carry_out
from delta_log.maintenance.jobs_api import TopicMaintenance
from delta_log.model.errors import LakelogError, OutcomeUnknown, PlanOutdated
from delta_log.model.file_bin import Bin
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.syscalls import Probe, no_probe
from jobs.foundation.task_size import plan_tasks
from jobs.runner.table_job import Job, Run, TopicProblem, milliseconds, run_job

__all__ = ["JOB", "main"]

_MIN_AGE: Final = "10m"


def main(
    argv: Sequence[str] | None = None, *, clock_ms: Callable[[], int] = wall_clock_ms, probe: Probe = no_probe
) -> int:
    return run_job(JOB, argv, clock_ms=clock_ms, probe=probe)


def count_bins(bins: Sequence[Bin]) -> dict[str, int]:
    """Counts of a plan; those of the work itself, if no other process interferes."""
    return {
        "bins": len(bins),
        "given_up": 0,
        "files_merged": sum(len(each.inputs) for each in bins),
        "files_written": len(bins),
        "records": sum(each.count for each in bins),
        "bytes_read": sum(each.size for each in bins),
    }


class _Merging:
    """Merge of one topic's bins: orders for executors, and their outcomes."""

    def __init__(self, run: Run, topic: TopicMaintenance, bins: Sequence[Bin]) -> None:
        self._run = run
        self._topic = topic
        self._bins = bins
        self._given_up = 0
        self._merged: list[Bin] = []
        self._written = 0
        self._problems: list[LakelogError] = []

    def do(self) -> None:
        try:
            self._merge()
        finally:
            counts = count_bins(self._merged) | {"bins": len(self._bins), "given_up": self._given_up}
            self._run.tell(self._topic.name, counts | {"bytes_written": self._written})
        if self._problems:
            first = next((each for each in self._problems if isinstance(each, OutcomeUnknown)), self._problems[0])
            raise TopicProblem(first, len(self._problems))

    def _merge(self) -> None:
        function = partial(carry_out, probe=self._run.probe) if self._run.probe is not no_probe else carry_out
        with closing(self._run.engine.map(function, self._orders())) as answered:
            for answers in answered:
                for answer in answers:
                    self._settle(answer)
                done = len(self._merged) + self._given_up + len(self._problems)
                self._run.progress.show(f"compaction: {self._topic.name}, {done} of {len(self._bins)} bins")

    def _orders(self) -> Iterator[list[MergeOrder]]:
        """Orders for tasks, generated while earlier ones are being carried out."""
        for task in plan_tasks(self._bins):
            current = [each for each in task if self._topic.is_current(each)]
            self._given_up += len(task) - len(current)
            if current:
                yield [self._topic.order(each) for each in current]

    def _settle(self, answer: MergeAnswer) -> None:
        try:
            self._topic.settle(answer)
        except PlanOutdated:
            self._given_up += 1
        except LakelogError as error:
            self._problems.append(error)
        else:
            self._merged.append(answer.order.bin)
            self._written += answer.file.size if answer.file is not None else 0


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--min-age",
        type=milliseconds,
        default=_MIN_AGE,
        metavar="TIME",
        help="leave younger records to the server, as 90s, 10m or 2h (default: %(default)s)",
    )


def _work(run: Run, topic: TopicMaintenance) -> None:
    bins = topic.plan_compaction(run.now_ms, run.options.min_age)
    run.say(([f"topic {topic.name}"] if bins else []) + [str(each) for each in bins])
    if run.dry_run or not bins:
        run.tell(topic.name, count_bins(bins) | {"bytes_written": 0})
        return
    _Merging(run, topic, bins).do()


JOB: Final = Job(
    "compaction",
    "Merge the small files of topics into large ones; the records and their offsets stay as they are.",
    _work,
    {
        "bins": "groups of files that were to become one",
        "given_up": "of these, those with which somebody else was faster",
        "files_merged": "files that others stand for now",
        "files_written": "these others",
        "records": "records in them, the same as before",
        "bytes_read": "what was merged",
        "bytes_written": "what that came to",
    },
    configure=_configure,
)
