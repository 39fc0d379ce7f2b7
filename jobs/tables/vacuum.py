"""Vacuum: the background work of a server for a root without one: checkpoints, log cleanup, deletion of unused files.

It locks out servers while it works, and is refused if one is running: a server does all of this by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from delta_log.maintenance.jobs_api import TopicMaintenance, VacuumPlan
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.syscalls import Probe, no_probe
from jobs.foundation.result import Counts
from jobs.runner.table_job import Job, Run, run_job

__all__ = ["JOB", "main"]


def main(
    argv: Sequence[str] | None = None, *, clock_ms: Callable[[], int] = wall_clock_ms, probe: Probe = no_probe
) -> int:
    return run_job(JOB, argv, clock_ms=clock_ms, probe=probe)


def _work(run: Run, topic: TopicMaintenance) -> None:
    plan = topic.plan_vacuum(run.now_ms)
    run.say(_plan_lines(topic.name, plan))
    if run.dry_run:
        run.tell(topic.name, _count(plan))
        return
    run.tell(topic.name, _count(VacuumPlan(checkpoint=False, files=(), entries=())))
    topic.vacuum(plan, partial(run.count, topic.name))


def _count(plan: VacuumPlan) -> Counts:
    return {
        "checkpoints": int(plan.checkpoint),
        "files_deleted": len(plan.files),
        "bytes_deleted": sum(file.size for file in plan.files),
        "entries_deleted": len(plan.entries),
    }


def _plan_lines(name: str, plan: VacuumPlan) -> Iterator[str]:
    if plan.checkpoint or plan.files or plan.entries:
        yield f"topic {name}"
    if plan.checkpoint:
        yield "write a checkpoint"
    yield from (f"delete {file.path} ({file.size} bytes), which nobody reads any more" for file in plan.files)
    yield from (f"delete {entry}, which a checkpoint stands for" for entry in plan.entries)


JOB: Final = Job(
    "vacuum",
    "Write checkpoints and delete what nobody reads any more, for a root without a running server.",
    _work,
    {
        "checkpoints": "1 where a checkpoint was due",
        "files_deleted": "files whose bytes were deleted, as nobody reads them any more",
        "bytes_deleted": "their size",
        "entries_deleted": "log entries that a checkpoint stands for",
    },
    alone=True,
    spark=False,
)
