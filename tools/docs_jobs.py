# ruff: noqa: INP001 - a program to run, not a package
"""Write the options and counts of jobs into docs/reference/jobs.md; with --check only compare.

The sentences around the tables, the exit codes and the summary are written by hand; what stands between two marks
belongs to this program.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from marked_page import keep_current, put_between

from jobs.foundation.registry import JOBS
from jobs.runner.stream_job import StreamJob
from jobs.runner.table_job import Job

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "jobs.md"
#: Of these the default is not the same everywhere.
DEFAULTS = {"engine": "each job has its own"}
AnyJob = Job | StreamJob


def all_jobs() -> list[AnyJob]:
    return [import_module(f"jobs.{name}").JOB for name in JOBS]


def options_of(job: AnyJob) -> dict[str, str]:
    """What each option is called and takes, and its help. Whoever defines a kind of jobs knows its options."""
    parser: argparse.ArgumentParser = import_module(type(job).__module__).build_parser(job)
    found: dict[str, str] = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of them
        if not isinstance(action, argparse._HelpAction):  # noqa: SLF001
            takes = action.metavar or "|".join(action.choices or ())
            name = f"{action.option_strings[-1]} {takes}".rstrip()
            found[name] = (action.help or "") % {"default": DEFAULTS.get(action.dest, action.default)}
    return found


def common_options(jobs: Sequence[AnyJob], kind: type[AnyJob]) -> dict[str, str]:
    """Those that a job of this kind has without any of its own."""
    one = next(job for job in jobs if isinstance(job, kind))
    return options_of(replace(one, configure=lambda _: None))


def render_tables(jobs: Sequence[AnyJob]) -> Mapping[str, str]:
    """Each by the name of its marks."""
    common = {kind: common_options(jobs, kind) for kind in (Job, StreamJob)}
    streaming = {name: text for name, text in common[StreamJob].items() if name not in common[Job]}
    found = {
        "options of every job": _table("option", common[Job]),
        "options of streaming jobs": _table("option", streaming),
    }
    for job in jobs:
        own = {name: text for name, text in options_of(job).items() if common[type(job)].get(name) != text}
        if own:
            found[f"options of {job.name}"] = _table("option", own)
        found[f"counts of {job.name}"] = _table("count", job.counts)
    return found


def put_tables(page: str, tables: Mapping[str, str]) -> str:
    """The page with what stands between the marks replaced."""
    for name, table in tables.items():
        page = put_between(page, table, f"<!-- {name}: begin (tools/docs_jobs.py) -->", f"<!-- {name}: end -->")
    return page


def _table(of: str, rows: Mapping[str, str]) -> str:
    lines = [f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows.items()]
    return "\n".join([f"| {of} | meaning |", "|---|---|", *lines])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main() -> int:
    return keep_current("docs_jobs.py", {PAGE: put_tables(PAGE.read_text(encoding="utf-8"), render_tables(all_jobs()))})


if __name__ == "__main__":
    sys.exit(main())
