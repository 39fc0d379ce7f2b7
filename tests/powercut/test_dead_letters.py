"""A dead letter is copied and passed, or neither: when the power goes, when a process dies at any step of the unit."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from delta_log import Log
from tests.support import dead_letter_turns
from tests.support.coordinating import coordinating
from tests.support.cuts import CUTS, SEED
from tests.support.dead_letter_turns import SETTINGS, Broken, Turns, check_letters
from tests.support.killing import Worker
from tests.support.powercut import PowerCut
from tests.support.recording_disk import RecordingDisk

STEPS = {
    "journal.before_write": 12,
    "journal.written": 13,
    "journal.synced": 14,
    "table.file_written": 4,
    "table.files_written": 3,
    "table.committed": 3,
}


def record(disk: RecordingDisk) -> list[tuple[int, set[int]]]:
    """What was promised, by the steps taken."""
    promised: list[tuple[int, set[int]]] = []

    async def work(log: Log) -> None:
        async with coordinating(log) as groups:
            turns = await Turns.begin(log, groups)
            for _ in range(4):
                await turns.take()
                promised.append((len(disk.steps), set(turns.promised)))
                await asyncio.to_thread(log.flush)

    with Log.open(disk.root, settings=SETTINGS, disk=disk) as log:
        asyncio.run(work(log))
    return promised


def check(root: Path, promised: set[int], *, go_on: bool = False) -> None:
    async def look(log: Log) -> None:
        async with coordinating(log) as groups:
            check_letters(log, groups, promised)
            if go_on:
                turns = await Turns.begin(log, groups)
                await turns.take()
                check_letters(log, groups, promised | turns.promised)

    for _ in range(2):
        with Log.open(root, settings=SETTINGS) as log:
            asyncio.run(look(log))


def losses(disk: RecordingDisk, promised: list[tuple[int, set[int]]], place: Path, cuts: int) -> list[str]:
    """What is broken after a cut at each of so many moments; half of them leave a part of what was not synced."""
    chance, total = random.Random(SEED), len(disk.steps)
    cut, broken = PowerCut(disk.steps), list[str]()
    for number, moment in enumerate(sorted(chance.sample(range(total + 1), min(cuts, total + 1)))):
        cut.go_to(moment)
        cut.survivors(place / "left", random.Random(moment) if number % 2 else None)
        kept = max((some for at, some in promised if at <= moment), key=len, default=set[int]())
        try:
            check(place / "left", kept)
        except Exception as error:  # noqa: BLE001 - whatever stops a log from being read is a loss
            broken.append(f"cut at step {moment} of {total}: {error!r}")
        shutil.rmtree(place / "left")
    return broken


def test_a_power_cut_leaves_every_letter_copied_and_passed_or_neither(tmp_path: Path):
    disk = RecordingDisk(tmp_path / "root")
    assert losses(disk, record(disk), tmp_path, CUTS // 4) == []


def run(root: Path, *, step: str, hit: int, worker: Path = Path(dead_letter_turns.__file__)) -> set[int]:
    """Up to its death; what was promised."""
    process = Worker(root, 0, step=step, hit=hit, worker=worker)
    events = process.run()
    assert process.was_killed, process.story
    return {offset for _, offset in events}


@pytest.mark.parametrize("step", STEPS)
def test_every_letter_is_copied_and_passed_or_neither_after_a_kill_at(tmp_path: Path, step: str):
    check(tmp_path / "root", run(tmp_path / "root", step=step, hit=STEPS[step]), go_on=True)


APART = """
import sys
from consumer_groups.coordinator.durable_state import DurableGroups
from tests.support import dead_letter_turns

async def do_beside(self, asked, appends, last_word=None, real=DurableGroups.do_beside):
    _, answers = await real(self, asked_nothing(asked), appends)
    decisions, _ = await real(self, asked, [])
    return decisions, answers

def asked_nothing(asked):
    from consumer_groups.state.decision import Decision
    from consumer_groups.coordinator.durable_state import Asked
    return [Asked(each.group, lambda known: Decision(known.name, None, known.generation)) for each in asked]

DurableGroups.do_beside = do_beside
dead_letter_turns.main(*sys.argv[1:])
"""


def test_a_kill_shows_a_server_that_copies_first_and_passes_then(tmp_path: Path):
    script = tmp_path / "broken_worker.py"
    script.write_text(APART)
    for hit in range(10, 16):
        root = tmp_path / f"root-{hit}"
        promised = run(root, step="journal.synced", hit=hit, worker=script)
        try:
            check(root, promised)
        except Broken:
            return
    pytest.fail("nothing shows it")
