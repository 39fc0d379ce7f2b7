"""Streams that are closed, cannot take all letters, or are full; and Ctrl-C before the program has begun."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from delta_log import Log, Record
from tests.architecture.project_files import ROOT
from tests.support.commands import PROGRAM
from tests.support.serving import DEADLINE_S, environment

VALUE = "Grüße 🫖"
#: Sends Ctrl-C when a module is about to be imported.
PRESSES = """
import importlib.abc, os, signal, sys
class Presses(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == os.environ["PRESS_AT"]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Presses())
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("streams") / "root"
    with Log.open(place) as log:
        log.create_topic("orders", 1)
        log.append("orders", [Record(VALUE.encode())])
    return place


def call(words: Sequence[object], closed: int | None = None, **options: Any) -> subprocess.CompletedProcess[str]:
    def close() -> None:
        if closed is not None:
            os.close(closed)

    given: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    given |= {"env": environment(), "text": True, "timeout": DEADLINE_S, "encoding": "utf-8"}
    return subprocess.run([*PROGRAM, *map(str, words)], check=False, preexec_fn=close, **given | options)


@pytest.mark.parametrize(
    "words",
    ["produce orders", "topics list", "consume orders", "completion bash", "serve --memory --port 0", "--help"],
)
def test_a_closed_output_is_said(words: str):
    ended = call(words.split(), closed=1)
    assert ended.returncode == 2
    assert "standard output is closed; leave it open, or send it to /dev/null" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["sql", "-"], ["serve", "--memory", "--port", "0", "--stop-with-stdin"]])
def test_a_closed_input_is_said_where_it_is_read(words: list[str]):
    ended = call(words, closed=0)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == f"lakelog {words[0]}: standard input is closed; give it something to read\n"


@pytest.mark.parametrize("closed", [0, 2])
def test_what_is_not_used_may_be_closed(root: Path, closed: int):
    ended = call(["sql", "SHOW TABLES", "--data", root, "--output", "json"], closed=closed)
    assert (ended.returncode, ended.stdout.splitlines()[0]) == (0, '{"table": "orders"}')
    assert call(["check", "--data", root / "absent"], closed=closed).returncode == 8


def test_without_letters_for_it_a_value_is_escaped_and_stays_the_same_as_json(root: Path):
    query = ["sql", "SELECT value FROM orders_text", "--data", root]
    ascii_only = environment() | {"PYTHONIOENCODING": "ascii"}
    table = call(query, env=ascii_only)
    assert (table.returncode, table.stderr) == (0, "")
    assert table.stdout.splitlines()[2] == r"Gr\u00fc\u00dfe \ud83e\uded6"
    row = call([*query, "--output", "json"], env=ascii_only)
    assert row.stdout.isascii()
    assert json.loads(row.stdout) == {"value": VALUE}
    refused = call(["sql", f"SELECT '{VALUE}' FRM", "--output=json", "--data", root / VALUE], env=ascii_only)
    assert VALUE in json.loads(refused.stderr)["error"]["message"]


def test_a_full_disk_below_the_output_is_one_sentence_with_what_to_do(root: Path):
    with Path("/dev/full").open("w") as full:
        ended = call(["sql", "SHOW TABLES", "--data", root], stdout=full)
    assert ended.returncode == 1
    assert ended.stderr == "lakelog sql: [Errno 28] No space left on device; --debug shows where\n"


def as_module(words: list[str]) -> list[str]:
    return [*PROGRAM, *words]


def as_script(words: list[str]) -> list[str]:
    """As an installer writes it."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    module, _, function = scripts["lakelog"].partition(":")
    return [sys.executable, "-c", f"import sys\nfrom {module} import {function}\nsys.exit({function}())", *words]


@pytest.mark.parametrize("started", [as_module, as_script])
@pytest.mark.parametrize("at", ["lakelog.cli.main", "argparse", "lakelog.cli.kit.sigint", "lakelog.cli.topics.list"])
def test_ctrl_c_while_the_program_is_still_loaded_ends_it_quietly(
    tmp_path: Path, started: Callable[[list[str]], list[str]], at: str
):
    (tmp_path / "sitecustomize.py").write_text(PRESSES)
    env = environment() | {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PRESS_AT": at}
    ended = subprocess.run(
        started(["topics", "list"]), env=env, cwd=ROOT, capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    assert (ended.stdout, ended.stderr) == ("", "")
    assert ended.returncode in (-signal.SIGINT, 130)
