"""Checkpoint: writes one for tables with 100 commits since the last, so that they open quickly.

It deletes nothing. It locks out servers while it works, and is refused if one is running: the pointer to the newest
checkpoint must never go back, which only a single writer can guarantee. A server writes checkpoints by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from delta_log.maintenance.jobs_api import TopicMaintenance
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.syscalls import Probe, no_probe
from jobs.runner.table_job import Job, Run, run_job

__all__ = ["JOB", "main"]


def main(
    argv: Sequence[str] | None = None, *, clock_ms: Callable[[], int] = wall_clock_ms, probe: Probe = no_probe
) -> int:
    return run_job(JOB, argv, clock_ms=clock_ms, probe=probe)


def _work(run: Run, topic: TopicMaintenance) -> None:
    due = topic.is_checkpoint_due
    if due:
        run.say([f"topic {topic.name}", f"write a checkpoint of version {topic.version}"])
    if due and not run.dry_run:
        topic.write_checkpoint()
    run.tell(topic.name, {"checkpoints": int(due)})


JOB: Final = Job(
    "checkpoint",
    "Write checkpoints where they are due, for a root without a running server.",
    _work,
    {"checkpoints": "1 where a checkpoint was due"},
    alone=True,
    spark=False,
)
