"""Runs what a document tells a reader to type.

A block is run when `<!-- runs -->` stands on the line before it. The blocks of a document run in order in one folder,
each in a process of its own, since later ones may use what earlier ones made.
"""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

BLOCK = re.compile(r"^<!-- runs -->\n```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS_FOR_A_BLOCK = 120


class Block(NamedTuple):
    line: int
    language: str
    text: str


def find_blocks(document: str) -> list[Block]:
    return [Block(document.count("\n", 0, match.start(2)) + 1, *match.groups()) for match in BLOCK.finditer(document)]


def run_block(block: Block, folder: Path, name: str = "README.md") -> str:
    """Run one block of the document `name`; returns what it printed, and raises with it when it fails."""
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
    assert process.returncode == 0, f"{name}:{block.line} ended with {process.returncode}\n{output}"
    return output
