"""docs/reference/jobs.md has every job with its options and counts, every exit code and every field of the summary."""

from __future__ import annotations

import argparse
import re
from dataclasses import fields
from importlib import import_module

import pytest

from jobs.command import Job, build_parser
from jobs.names import JOBS
from jobs.outcome import Exit, Summary
from tests.architecture.project_files import ROOT

PAGE = (ROOT / "docs" / "reference" / "jobs.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
COMMON = "Options of every job"


def the_job(name: str) -> Job:
    return import_module(f"jobs.{name}").JOB


def documented(title: str, of: str) -> dict[str, str]:
    """The rows of a table whose first column is called `of`."""
    _, _, table = SECTIONS[title].partition(f"| {of} | ")
    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", table.split("\n\n")[0], re.MULTILINE)
    return {name.replace("\\|", "|"): text for name, text in rows}


def options(job: Job) -> dict[str, str]:
    parser = build_parser(job)
    found: dict[str, str] = {}
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        takes = action.metavar or "|".join(action.choices or ())
        default = "each job has its own" if action.dest == "engine" else action.default
        name = " ".join([action.option_strings[-1], *([str(takes)] if takes else [])])
        found[name] = (action.help or "") % {"default": default}
    return found


@pytest.mark.parametrize("name", JOBS)
def test_every_option_of_a_job_has_a_row_that_says_what_its_help_says(name: str):
    assert documented(COMMON, "option") | documented(name.capitalize(), "option") == options(the_job(name))


@pytest.mark.parametrize("name", JOBS)
def test_every_count_has_a_row_that_says_what_the_code_says(name: str):
    assert documented(name.capitalize(), "count") == the_job(name).counts


def test_every_exit_code_has_a_row():
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| \S", SECTIONS["Exit codes"], re.MULTILINE)
    assert {int(code): outcome for code, outcome in rows} == {code.value: code.name.lower() for code in Exit}


def test_every_field_of_the_summary_has_a_row():
    assert list(documented("The summary", "field")) == [each.name for each in fields(Summary)]


def test_every_job_has_a_section_and_a_module_of_its_name():
    titles = {title for title in SECTIONS if title.lower() in JOBS}
    assert {title.lower() for title in titles} == set(JOBS)
    for name in JOBS:
        assert the_job(name).name == name
        assert callable(import_module(f"jobs.{name}").main)
