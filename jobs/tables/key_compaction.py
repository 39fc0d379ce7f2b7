"""Key compaction: keeps the last record of each key of topics whose `cleanup.policy` has `compact`.

    plan passes  →  executors sift keys  →  executors write the rest of files  →  this process commits each pass

A partition's pass is one commit. It knows passes and orders; not which records are removed, or how, or where, a file is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from typing import Final

from delta_log.maintenance.compaction.passes import Pass, Passed, Sifting, plan_passes
from delta_log.maintenance.compaction.superseded import gather, spread
from delta_log.maintenance.compaction.survivors import SurvivorsOrder, carry_out
from delta_log.maintenance.jobs_api import TopicMaintenance
from delta_log.model.errors import LakelogError, OutcomeUnknown, PlanOutdated
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.syscalls import Probe, no_probe
from jobs.foundation.result import Counts
from jobs.foundation.task_size import plan_tasks
from jobs.runner.table_job import Job, Run, TopicProblem, run_job

__all__ = ["JOB", "main"]

#: Maximum rounds: if a file of a pass was folded or merged meanwhile, only its work is repeated, but not for ever.
_ROUNDS: Final = 5


def main(
    argv: Sequence[str] | None = None, *, clock_ms: Callable[[], int] = wall_clock_ms, probe: Probe = no_probe
) -> int:
    return run_job(JOB, argv, clock_ms=clock_ms, probe=probe)


def count_passes(passes: Sequence[Pass]) -> dict[str, int]:
    """Counts of plans. Removals are 0, as they are known only after the keys are read."""
    inputs = [file for each in passes for file in each.plan.inputs]
    return {
        "passes": len(passes),
        "given_up": 0,
        "files_held": len(inputs),
        "records_held": sum(file.count for file in inputs),
        "bytes_held": sum(file.size for file in inputs),
        "records_removed": 0,
        "files_replaced": 0,
        "files_written": 0,
        "bytes_replaced": 0,
        "bytes_written": 0,
    }


class _Passing:
    """Passes of one topic: those still open, and the outcomes of the others."""

    def __init__(self, run: Run, topic: TopicMaintenance, passes: Sequence[Pass]) -> None:
        self._run = run
        self._topic = topic
        self._passes = passes
        self._open = list(passes)
        self._given_up = 0
        self._passed: list[Passed] = []
        self._problems: list[LakelogError] = []

    def do(self) -> None:
        try:
            self._sift()
            self._run.probe("key_compaction.mapped")
            for _ in range(_ROUNDS):
                self._write_and_commit()
            for one in list(self._open):
                self._end(one, PlanOutdated(self._topic.name, "others were faster again and again"))
        finally:
            for one in self._open:
                one.give_up()
            self._run.tell(self._topic.name, self._counts())
        if self._problems:
            first = next((each for each in self._problems if isinstance(each, OutcomeUnknown)), self._problems[0])
            raise TopicProblem(first, len(self._problems))

    def _sift(self) -> None:
        sifting = Sifting(self._topic.ground, self._passes, self._run.engine.workers)
        done = 0
        with closing(self._run.engine.exchange(spread, sifting.orders(), gather, sifting.buckets)) as verdicts:
            for verdict in verdicts:
                one = sifting.pass_of(verdict.bucket)
                with self._ending(one):
                    one.sift(verdict)
                done += 1
                self._run.progress.show(f"key compaction: {self._topic.name}, keys {done} of {sifting.buckets}")

    def _write_and_commit(self) -> None:
        """Run one round: a pass with a file that another process replaced meanwhile stays open."""
        owners: dict[str, Pass] = {}
        orders: list[SurvivorsOrder] = []
        for one in list(self._open):
            with self._ending(one):
                found = one.orders()
                orders += found
                owners |= dict.fromkeys((order.name for order in found), one)
            self._commit(one)
        function = partial(carry_out, probe=self._run.probe) if self._run.probe is not no_probe else carry_out
        done = 0
        with closing(self._run.engine.map(function, plan_tasks(orders))) as answered:
            for answer in chain.from_iterable(answered):
                with self._ending(owners[answer.name], unless=PlanOutdated):
                    owners[answer.name].take(answer)
                self._commit(owners[answer.name])
                done += 1
                self._run.progress.show(f"key compaction: {self._topic.name}, {done} of {len(orders)} rewrites")

    def _commit(self, one: Pass) -> None:
        if one in self._open and one.is_written:
            with self._ending(one, unless=PlanOutdated):
                self._passed.append(one.commit())
                self._open.remove(one)

    @contextmanager
    def _ending(self, one: Pass, *, unless: type[LakelogError] | tuple[()] = ()) -> Generator[None]:
        """End only this pass on an error."""
        try:
            yield
        except unless:
            return
        except LakelogError as error:
            self._end(one, error)

    def _end(self, one: Pass, why: LakelogError) -> None:
        if one not in self._open:
            return
        self._open.remove(one)
        one.give_up()
        if isinstance(why, PlanOutdated):
            self._given_up += 1
        else:
            self._problems.append(why)

    def _counts(self) -> Counts:
        old = [file for passed in self._passed for file in passed.old]
        fresh = [file for passed in self._passed for file in passed.fresh]
        return count_passes(self._passes) | {
            "given_up": self._given_up,
            "records_removed": sum(file.count for file in old) - sum(file.count for file in fresh),
            "files_replaced": len(old),
            "files_written": len(fresh),
            "bytes_replaced": sum(file.size for file in old),
            "bytes_written": sum(file.size for file in fresh),
        }


def _work(run: Run, topic: TopicMaintenance) -> None:
    passes = plan_passes(topic.ground, run.now_ms)
    run.say(([f"topic {topic.name}"] if passes else []) + [str(each.plan) for each in passes])
    if run.dry_run or not passes:
        run.tell(topic.name, count_passes(passes))
        return
    _Passing(run, topic, passes).do()


JOB: Final = Job(
    "key_compaction",
    "Keep the last record of each key of topics whose cleanup.policy has compact; offsets stay as they are.",
    _work,
    {
        "passes": "partitions of which enough was new",
        "given_up": "of these, those with which somebody else was faster",
        "files_held": "files whose keys were held against each other",
        "records_held": "records in them",
        "bytes_held": "their size",
        "records_removed": "records that left, as a later one has their key, or a null value whose time is over",
        "files_replaced": "files that lost records, or all of them; the others stay as they are",
        "files_written": "files with what is left of them",
        "bytes_replaced": "what was rewritten",
        "bytes_written": "what that came to",
    },
)
