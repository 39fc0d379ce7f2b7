"""What README.md tells a newcomer to type works as it is written.

A block is run when `<!-- runs -->` stands on the line before it. All of them run in order in one fresh copy
of the project, since later ones may use what earlier ones made.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.architecture.project_files import ROOT, list_files

BLOCK = re.compile(r"^<!-- runs -->\n```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS_FOR_A_BLOCK = 120


class Block(NamedTuple):
    line: int
    language: str
    text: str


def find_blocks(document: str) -> list[Block]:
    return [
        Block(document.count("\n", 0, match.start(2)) + 1, *match.groups())
        for match in BLOCK.finditer(document)
    ]


def run_block(block: Block, folder: Path) -> str:
    program = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "LAKELOG_VENV": sys.prefix,
    }
    with subprocess.Popen(
        [*program, block.text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS_FOR_A_BLOCK)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    assert process.returncode == 0, f"README.md:{block.line} ended with {process.returncode}\n{output}"
    return output


@pytest.fixture
def copy_of_the_project(tmp_path: Path) -> Path:
    for path in list_files():
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return tmp_path


@pytest.mark.timeout(600)
def test_every_block_that_is_marked_runs(copy_of_the_project: Path):
    blocks = find_blocks((ROOT / "README.md").read_text())
    assert blocks, "README.md marks no block with <!-- runs -->"
    for block in blocks:
        run_block(block, copy_of_the_project)


def test_a_block_that_fails_is_named_by_its_line(tmp_path: Path):
    (block,) = find_blocks("# title\n\n<!-- runs -->\n```sh\nfalse\ntrue\n```\n\n```sh\nnot run\n```\n")
    with pytest.raises(AssertionError, match=r"README.md:5 ended with 1"):
        run_block(block, tmp_path)


def test_python_blocks_run_too(tmp_path: Path):
    (block,) = find_blocks("<!-- runs -->\n```python\nimport lakelog\nprint(lakelog.__name__)\n```\n")
    assert run_block(block, tmp_path) == "lakelog\n"
