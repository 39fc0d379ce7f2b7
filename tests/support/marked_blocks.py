"""Runs what a document tells a reader to type.

A block is run when `<!-- runs -->` stands on the line before it. The blocks of a document run in order in one folder,
each in a process of its own, since later ones may use what earlier ones made. A block below `<!-- serves -->` starts a
server, which is there for the blocks below it, up to `<!-- Ctrl-C -->`, where the reader presses it.

The server gets a free port, and the blocks are told that one where the document says 8082; commands know it. curl fails
when the answer is an error.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from typing import IO, NamedTuple

BLOCK = re.compile(r"^<!-- (runs|serves) -->\n```(sh|python)\n(.*?)^```$|^<!-- Ctrl-C -->$", re.MULTILINE | re.DOTALL)
LISTENS = re.compile(r"listens on http://127\.0\.0\.1:(\d+)")
THE_PORT = "127.0.0.1:8082"
SECONDS_FOR_A_BLOCK = 120
CURL_HOME = Path(__file__).parent / "curl"


class Block(NamedTuple):
    """`mark` is runs, serves or Ctrl-C."""

    line: int
    language: str
    text: str
    mark: str = "runs"


def find_blocks(document: str) -> list[Block]:
    return [
        Block(
            document.count("\n", 0, match.start(3) if match[1] else match.start()) + 1,
            match[2] or "",
            match[3] or "",
            match[1] or "Ctrl-C",
        )
        for match in BLOCK.finditer(document)
    ]


def run_blocks(blocks: list[Block], folder: Path, name: str = "README.md") -> list[str]:
    """All of a document, and what each block printed; a server that it starts is stopped where it says so."""
    printed: list[str] = []
    with contextlib.ExitStack() as servers:
        port = ""
        for block in blocks:
            if block.mark == "serves":
                port = servers.enter_context(served(block, folder, name))
            elif block.mark == "Ctrl-C":
                servers.close()
            else:
                text = block.text.replace(THE_PORT, f"127.0.0.1:{port}") if port else block.text
                if port and block.language == "sh":
                    text = f"export LAKELOG_SERVER=http://127.0.0.1:{port}\n{text}"
                printed.append(run_block(block._replace(text=text), folder, name))
    return printed


def run_block(block: Block, folder: Path, name: str = "README.md") -> str:
    """Run one block of the document `name`; returns what it printed, and raises with it when it fails."""
    with _started(block, folder) as process:
        try:
            output, _ = process.communicate(timeout=SECONDS_FOR_A_BLOCK)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
    assert process.returncode == 0, f"{name}:{block.line} ended with {process.returncode}\n{output}"
    return output


@contextlib.contextmanager
def served(block: Block, folder: Path, name: str = "README.md") -> Generator[str]:
    """Have the server of this block running; yields its port. At the end Ctrl-C is pressed."""
    with _started(block, folder) as process:
        timer = threading.Timer(SECONDS_FOR_A_BLOCK, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        said: list[str] = []
        try:
            port = _wait_until_ready(process.stdout, said)
            timer.cancel()
            assert port, f"{name}:{block.line} did not serve\n{''.join(said)}"
            rest = threading.Thread(target=said.extend, args=(process.stdout or (),), daemon=True)
            rest.start()
            yield port
            os.killpg(process.pid, signal.SIGINT)
            process.wait(SECONDS_FOR_A_BLOCK)
            rest.join(SECONDS_FOR_A_BLOCK)
            assert "bringing everything into the tables" in "".join(said), f"{name}:{block.line}\n{''.join(said)}"
        finally:
            timer.cancel()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def _started(block: Block, folder: Path) -> subprocess.Popen[str]:
    program = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
    # What a person has set for the tests is no setting of the server that a document starts, by `make` or without.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LAKELOG_", "MAKE", "ARGS"))}
    environment = inherited | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "LAKELOG_VENV": sys.prefix,
        "LAKELOG_PORT": "0",
        "CURL_HOME": str(CURL_HOME),
    }
    return subprocess.Popen(
        [*program, block.text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def _wait_until_ready(lines: IO[str] | None, said: list[str]) -> str:
    for line in lines or ():
        said.append(line)
        if line.startswith("ready"):
            listens = LISTENS.search("".join(said))
            return listens[1] if listens is not None else ""
    return ""
