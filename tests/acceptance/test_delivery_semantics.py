"""The examples of delivery, killed in the middle: between the commit and the processing, whichever comes first."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from tests.architecture.project_files import ROOT
from tests.support.serving import DEADLINE_S, Server, environment, serving, wait_for

#: LAKELOG_KILL_ROUNDS=20 for a long run.
ROUNDS = int(os.environ.get("LAKELOG_KILL_ROUNDS", "2"))
RECORDS = 60_000
PARTITIONS = 3
GROUP = "readers"
EXAMPLES = ROOT / "examples"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "root") as running:
        made = httpx.put(f"{running.url}/topics/orders", json={"partitions": PARTITIONS})
        assert made.status_code == 201
        lines = "".join(f'"{number:08d}"\n' for number in range(RECORDS))
        sent = httpx.post(
            f"{running.url}/topics/orders", content=lines, headers={"content-type": "application/x-ndjson"}
        )
        assert sent.status_code == 200
        yield running


@contextmanager
def example(name: str, server: Server, output: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "orders", GROUP, str(output), "one"]
    process = subprocess.Popen(
        command, env=environment() | {"LAKELOG_SERVER": server.url}, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def kill_when(process: subprocess.Popen[str], in_the_middle: Callable[[], bool]) -> None:
    stop_when(process, in_the_middle)
    process.kill()


def stop_when(process: subprocess.Popen[str], wanted: Callable[[], bool]) -> None:
    """Looks while it stands still, so that what is seen is what a kill leaves."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        process.send_signal(signal.SIGSTOP)
        if wanted():
            return
        process.send_signal(signal.SIGCONT)
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "it was never seen in the middle"
        time.sleep(0.0005)


def run_to_the_end(name: str, server: Server, output: Path) -> None:
    """Until the group has committed everything; Ctrl-C ends it cleanly."""
    with example(name, server, output) as process:
        wait_for(lambda: committed(server) == RECORDS, "the end of the topic")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 0, process.communicate()[1]


def committed(server: Server) -> int:
    """How many records the group has behind it."""
    answer = httpx.get(f"{server.url}/groups/{GROUP}/offsets")
    if answer.status_code == httpx.codes.NOT_FOUND:
        return 0
    return sum(each["next_offset"] for each in answer.json()["offsets"])


def lines_of(output: Path) -> list[str]:
    with suppress(FileNotFoundError):
        text = output.read_text()
        return text[: text.rfind("\n") + 1].splitlines()
    return []


@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_at_most_once_loses_what_a_kill_interrupts_and_never_repeats(tmp_path: Path, server: Server):
    output, lost = tmp_path / "sent.txt", itertools.count(1)
    for _ in range(ROUNDS):
        least = next(lost)
        with example("at_most_once", server, output) as process:
            kill_when(process, lambda least=least: committed(server) - len(lines_of(output)) >= least)
    run_to_the_end("at_most_once", server, output)
    processed = lines_of(output)
    assert len(processed) == len(set(processed))
    assert len(processed) < RECORDS


@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_at_least_once_repeats_what_a_kill_interrupts_and_never_loses(tmp_path: Path, server: Server):
    output = tmp_path / "billed.txt"
    for _ in range(ROUNDS):
        with example("at_least_once", server, output) as process:
            kill_when(process, lambda: len(set(lines_of(output))) > committed(server))
    run_to_the_end("at_least_once", server, output)
    processed = lines_of(output)
    assert set(processed) == {f'"{number:08d}"' for number in range(RECORDS)}
    assert len(processed) > RECORDS


@pytest.mark.timeout(300 + 30 * ROUNDS)
def test_an_offset_stored_with_the_output_makes_it_exactly_once(tmp_path: Path, server: Server):
    output = tmp_path / "totals.db"
    journal = output.with_name(f"{output.name}-journal")
    for _ in range(ROUNDS):
        with example("offset_with_output", server, output) as process:
            kill_when(process, lambda: journal.exists() and committed(server) > 0)
    run_to_the_end("offset_with_output", server, output)
    assert stored_lines(output) == [f'"{number:08d}"' for number in range(RECORDS)]


def test_a_consumer_that_lost_its_partitions_unawares_changes_nothing_in_the_database(tmp_path: Path, server: Server):
    output = tmp_path / "totals.db"
    journal = output.with_name(f"{output.name}-journal")
    with example("offset_with_output", server, output) as paused:
        stop_when(paused, lambda: committed(server) > 0 and not journal.exists())  # else it would hold the database
        run_to_the_end("offset_with_output", server, output)
        paused.send_signal(signal.SIGCONT)
        paused.send_signal(signal.SIGINT)
        paused.wait(DEADLINE_S)
    assert stored_lines(output) == [f'"{number:08d}"' for number in range(RECORDS)]


def stored_lines(output: Path) -> list[str]:
    database = sqlite3.connect(output)
    try:
        return [line for (line,) in database.execute("SELECT line FROM orders ORDER BY line")]
    finally:
        database.close()
