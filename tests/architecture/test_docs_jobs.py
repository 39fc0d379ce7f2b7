"""docs/reference/jobs.md has every job with its options and counts, every exit code and every field of the summary."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import fields, replace
from importlib import import_module
from types import ModuleType

import pytest

from jobs.foundation.registry import JOBS
from jobs.foundation.result import Exit, Summary
from jobs.runner.stream_job import StreamJob
from jobs.runner.table_job import Job
from tests.architecture.project_files import ROOT, load_tool

PAGE = (ROOT / "docs" / "reference" / "jobs.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
COMMON = "Options of every job"
STREAMING = "Options of streaming jobs"


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    return load_tool("docs_jobs")


def the_job(name: str) -> Job | StreamJob:
    return import_module(f"jobs.{name}").JOB


def title_of(name: str) -> str:
    return name.replace("_", " ").capitalize()


def documented(title: str, of: str) -> dict[str, str]:
    """The rows of a table whose first column is called `of`."""
    _, _, table = SECTIONS[title].partition(f"| {of} | ")
    return dict(re.findall(r"^\| `([^`]+)` \| (.+) \|$", table.split("\n\n")[0], re.MULTILINE))


def test_the_documented_tables_are_those_of_the_code(docs: ModuleType):
    assert docs.put_tables(PAGE, docs.render_tables(docs.all_jobs())) == PAGE, "run python tools/docs_jobs.py"


def test_a_table_stands_in_the_section_of_its_job(docs: ModuleType):
    titles = {"every job": COMMON, "streaming jobs": STREAMING} | {name: title_of(name) for name in JOBS}
    for name in docs.render_tables(docs.all_jobs()):
        assert f"<!-- {name}: begin" in SECTIONS[titles[name.partition(" of ")[2]]], name


@pytest.mark.parametrize("name", JOBS)
def test_every_option_and_count_of_a_job_is_in_one_of_its_tables(docs: ModuleType, name: str):
    job = the_job(name)
    tables = docs.render_tables(
        [*docs.all_jobs(), replace(job, configure=one_more, counts={**job.counts, "left": "?"})]
    )
    common = tables["options of every job"] + (
        tables["options of streaming jobs"] if isinstance(job, StreamJob) else ""
    )
    assert f"| `{docs._cell('--more N|M')}` | one more |" in tables[f"options of {name}"]
    assert tables[f"counts of {name}"].endswith("| `left` | ? |")
    kept = docs.options_of(replace(job, configure=lambda _: None))
    assert [each for each in kept if f"| `{docs._cell(each)}` | " not in common] == []


def one_more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--more", metavar="N|M", help="one more")


def test_every_exit_code_has_a_row():
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| \S", SECTIONS["Exit codes"], re.MULTILINE)
    assert {int(code): outcome for code, outcome in rows} == {code.value: code.name.lower() for code in Exit}


def test_every_field_of_the_summary_has_a_row():
    assert list(documented("The summary", "field")) == [each.name for each in fields(Summary)]


def test_every_job_has_a_section_and_a_module_of_its_name():
    assert {title_of(name) for name in JOBS} <= set(SECTIONS)
    for name in JOBS:
        assert the_job(name).name == name
        assert callable(import_module(f"jobs.{name}").main)


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_run_by_python_under_its_name(name: str):
    ended = subprocess.run(
        [sys.executable, "-m", f"jobs.{name}", "--help"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"usage: python -m jobs.{name} ")
