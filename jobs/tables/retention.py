"""Retention: removes records by a topic's retention.ms, retention.bytes or delete-records, whole files at a time.

    log starts move  →  files leave the table  →  their bytes are deleted, once no reader can be using them

Planning a topic takes only its table's log and no file, so one process plans hundreds of thousands of files in seconds;
with Spark executors check the topics, and only those with something due are processed here.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final

from delta_log.maintenance.jobs_api import ReportProgress, RetentionLook, StaleFile, TopicMaintenance, find_due
from delta_log.maintenance.retention import RetentionPlan
from delta_log.model.clock_tolerance import check_clocks
from delta_log.model.errors import NotAvailable, PlanOutdated
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.syscalls import Probe, no_probe
from jobs.foundation.result import Counts
from jobs.runner.table_job import Job, Run, run_job

__all__ = ["JOB", "main"]

_TOPICS_OF_A_TASK: Final = 50
_ANSWER_S: Final = 10.0
_ROUNDS: Final = 5


def main(
    argv: Sequence[str] | None = None, *, clock_ms: Callable[[], int] = wall_clock_ms, probe: Probe = no_probe
) -> int:
    return run_job(JOB, argv, clock_ms=clock_ms, probe=probe)


def count_plans(plans: Sequence[RetentionPlan], stale: Sequence[StaleFile]) -> Counts:
    """Counts of plans; those of the work itself, if no other process interferes."""
    return {
        "log_starts_moved": sum(plan.new_log_start > plan.log_start for plan in plans),
        "files": sum(len(plan.removals) for plan in plans),
        "records": sum(plan.count for plan in plans),
        "bytes": sum(plan.size for plan in plans),
        "files_deleted": len(stale),
        "bytes_deleted": sum(file.size for file in stale),
    }


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--server", metavar="URL", help="a server whose clock must agree, too")


def _check(run: Run) -> None:
    if run.options.server:
        check_clocks(run.now_ms, _server_ms(run.options.server), "the server's")


def _choose(run: Run, names: Sequence[str]) -> Sequence[str]:
    if run.options.engine != "spark" or len(names) <= _TOPICS_OF_A_TASK:
        return names
    places = range(0, len(names), _TOPICS_OF_A_TASK)
    looks = [
        RetentionLook(run.maintenance.location, tuple(names[at : at + _TOPICS_OF_A_TASK]), run.now_ms) for at in places
    ]
    due = {name for found in run.engine.map(find_due, looks) for name in found}
    return [name for name in names if name in due]


def _work(run: Run, topic: TopicMaintenance) -> None:
    plans, stale = topic.plan_retention(run.now_ms), topic.plan_sweep(run.now_ms)
    run.say(_plan_lines(topic.name, plans, stale))
    if run.dry_run:
        run.tell(topic.name, count_plans(plans, stale))
        return
    run.tell(topic.name, count_plans((), ()))
    told = partial(run.count, topic.name)
    _retain(run, topic, plans, told)
    topic.sweep(stale, told)


def _retain(run: Run, topic: TopicMaintenance, plans: Sequence[RetentionPlan], told: ReportProgress) -> None:
    """Apply plans; if the topic's settings changed since planning, plan again."""
    for left in reversed(range(_ROUNDS)):
        if not plans:
            return
        try:
            topic.retain(plans, told)
        except PlanOutdated as outdated:
            if not left:
                raise
            topic = run.maintenance.topic(topic.name)
            plans = topic.plan_retention(run.now_ms)
            run.say([f"{outdated}; it is planned anew", *_plan_lines(topic.name, plans, ())])
        else:
            return


def _plan_lines(name: str, plans: Sequence[RetentionPlan], stale: Sequence[StaleFile]) -> Iterator[str]:
    if plans or stale:
        yield f"topic {name}"
    yield from (str(plan) for plan in plans)
    yield from (f"delete {file.path} ({file.size} bytes), which nobody reads any more" for file in stale)


def _server_ms(url: str) -> int:
    import httpx  # noqa: PLC0415 - needed for --server only

    from jobs.foundation.addresses import client_options  # noqa: PLC0415 - likewise

    try:
        with httpx.Client(**client_options(url), timeout=_ANSWER_S) as client:
            date = client.get("/healthz").headers["date"]
        return round(parsedate_to_datetime(date).timestamp() * 1000)
    except (httpx.HTTPError, httpx.InvalidURL, KeyError, ValueError) as error:
        raise NotAvailable(f"the server at {url} does not say what time it is ({error})") from error


JOB: Final = Job(
    "retention",
    "Remove what the topics' retention.ms, retention.bytes and delete-records no longer keep.",
    _work,
    {
        "log_starts_moved": "partitions whose log start moved",
        "files": "files that left the table by this run",
        "records": "records in them",
        "bytes": "their size",
        "files_deleted": "files whose bytes were deleted, as nobody reads them any more",
        "bytes_deleted": "their size",
    },
    default_engine=lambda: "local",
    configure=_configure,
    check=_check,
    choose=_choose,
)
