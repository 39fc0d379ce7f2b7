"""Audit: verifies that topics hold what their tables state. It reads every page of every file, and changes nothing.

chain of files, by the table's log  →  executors read the files  →  findings, one line each
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from delta_log.maintenance.audit.audit_files import AuditOrder, audit_files
from delta_log.maintenance.audit.continuity import Finding
from delta_log.maintenance.jobs_api import TopicMaintenance
from delta_log.model.errors import Corruption, LakelogError
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.syscalls import Probe, no_probe
from jobs.runner.table_job import Job, Run, TopicProblem, run_job

__all__ = ["JOB", "main"]

_TASK_BYTES: Final = 64 * 1024 * 1024
_TASK_FILES: Final = 1000


def main(
    argv: Sequence[str] | None = None, *, clock_ms: Callable[[], int] = wall_clock_ms, probe: Probe = no_probe
) -> int:
    return run_job(JOB, argv, clock_ms=clock_ms, probe=probe)


def _work(run: Run, topic: TopicMaintenance) -> None:
    findings = topic.check_chains()
    orders = topic.plan_audit(_TASK_BYTES, _TASK_FILES)
    files = [file for order in orders for file in order.files]
    if run.dry_run:
        run.say([f"topic {topic.name}", *(f"read {file.path} ({file.size} bytes)" for file in files)])
    else:
        findings += _look_into_files(run, topic, orders)
        left = topic.orphans(run.now_ms)
        findings += [Finding(file.path, "no commit names it, and nobody is about to") for file in left]
        run.say([f"topic {topic.name}", *findings] if findings else [])
    counts = {
        "files": len(files),
        "records": sum(file.count for file in files),
        "bytes": sum(file.size for file in files),
        "findings": len(findings),
    }
    run.tell(topic.name, counts)
    if findings and not run.dry_run:
        first = findings[0]
        where = f"{topic.name}/{first.file}" if first.file else topic.name
        raise TopicProblem(Corruption(where, first.what), len(findings))


def _without_log(run: Run) -> dict[str, LakelogError]:
    what = "no log says of which table its files are; `lakelog check` looks further"
    return {} if run.dry_run else {name: Corruption(name, what) for name in run.maintenance.names_without_log()}


def _look_into_files(run: Run, topic: TopicMaintenance, orders: Sequence[AuditOrder]) -> list[Finding]:
    if not orders:
        return []
    findings: list[Finding] = []
    done = 0
    with closing(run.engine.map(audit_files, orders)) as answered:
        for answer in answered:
            findings += [*answer.findings, *topic.still_missing(answer)]
            done += 1
            run.progress.show(f"audit: {topic.name}, {done} of {len(orders)} tasks")
    return findings


JOB: Final = Job(
    "audit",
    "Verify topics: their offsets, every page of their files, and what the tables say of them.",
    _work,
    {
        "files": "files that were read",
        "records": "records in them",
        "bytes": "their size",
        "findings": "what is wrong; each is a line on stdout",
    },
    looks=True,
    beside=_without_log,
)
