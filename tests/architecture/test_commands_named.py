"""Whoever is told to run a command finds it: every command that code or documents name is one that there is."""

from __future__ import annotations

import re

import pytest

from lakelog.cli.commands import COMMANDS, Group
from tests.architecture.project_files import ROOT

#: In backticks, in a block that is to be typed, or on a line of its own that is set in.
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
IN_BLOCK = re.compile(r"^lakelog +([a-z][a-z-]*)(?: +([a-z][a-z-]*))?", re.MULTILINE)
NAMED = re.compile(r"(?:`|^ {2,4})lakelog +([a-z][a-z-]*)(?: +([a-z][a-z-]*))?", re.MULTILINE)
FOLDERS = ("lakelog", "ingest_api", "delta_log", "consumer_groups", "jobs", "conf", "docs")
FILES = [
    path
    for folder in FOLDERS
    for kind in ("*.py", "*.md", "*.toml", "*.yml", "*.yaml", "*.service")
    for path in sorted((ROOT / folder).rglob(kind))
] + [ROOT / "README.md"]


def wrong_names_in(text: str) -> list[str]:
    wrong: list[str] = []
    in_blocks = [found for block in BLOCK.findall(text) for found in IN_BLOCK.findall(block)]
    for name, below in [*NAMED.findall(text), *in_blocks]:
        command = COMMANDS.get(name)
        if command is None or (isinstance(command, Group) and below and below not in command.commands):
            wrong.append(f"lakelog {name} {below}".strip())
    return wrong


def test_they_would_be_noticed():
    typed = "```sh\nlakelog topics burn x\n```\n"
    assert wrong_names_in(f"see what `lakelog mend --dry-run` would do\n{typed}") == [
        "lakelog mend",
        "lakelog topics burn",
    ]
    assert wrong_names_in("`lakelog sql QUERY`, `lakelog --help`, lakelog mend") == []


@pytest.mark.parametrize("folder", [*FOLDERS, "README.md"])
def test_every_command_that_is_named_is_one(folder: str):
    found = {
        path.relative_to(ROOT).as_posix(): wrong
        for path in FILES
        if path.relative_to(ROOT).parts[0] == folder and (wrong := wrong_names_in(path.read_text(encoding="utf-8")))
    }
    assert found == {}
