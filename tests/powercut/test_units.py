"""A unit of several topics and tables is there whole or not at all: when the power goes, when a process dies."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from delta_log import Log
from tests.support import unit_turns
from tests.support.cuts import CUTS, SEED
from tests.support.killing import Worker
from tests.support.powercut import PowerCut
from tests.support.recording_disk import RecordingDisk
from tests.support.unit_turns import SETTINGS, Broken, Turns, check_units

STEPS = {
    "journal.before_write": 12,
    "journal.written": 12,
    "journal.synced": 13,
    "journal.released": 1,
    "table.file_written": 7,
    "table.files_written": 5,
    "table.committed": 5,
}


def record(disk: RecordingDisk) -> list[tuple[int, int]]:
    """Units beside commits of one table and of all; how many were promised, by the steps taken."""
    promised: list[tuple[int, int]] = []
    with Log.open(disk.root, settings=SETTINGS, disk=disk) as log:
        turns = Turns(log)
        for number in range(8):
            turns.take()
            promised.append((len(disk.steps), turns.next))
            asyncio.run(turns.take_ahead())
            promised.append((len(disk.steps), turns.next))
            log.flush("t" if number % 2 else None)
    return promised


def losses(disk: RecordingDisk, promised: list[tuple[int, int]], place: Path, cuts: int) -> list[str]:
    """What is broken after a cut at each of so many moments; half of them leave a part of what was not synced."""
    chance, total = random.Random(SEED), len(disk.steps)
    cut, broken = PowerCut(disk.steps), list[str]()
    for number, moment in enumerate(sorted(chance.sample(range(total + 1), min(cuts, total + 1)))):
        cut.go_to(moment)
        cut.survivors(place / "left", random.Random(moment) if number % 2 else None)
        try:
            kept = max((count for at, count in promised if at <= moment), default=0)
            for _ in range(2):
                with Log.open(place / "left", settings=SETTINGS) as log:
                    check_units(log, kept)
                    turns = Turns(log)
                    turns.take()
                    kept = turns.next
        except Exception as error:  # noqa: BLE001 - whatever stops a log from being read is a loss
            broken.append(f"cut at step {moment} of {total}: {error!r}")
        shutil.rmtree(place / "left")
    return broken


def test_a_power_cut_leaves_every_unit_whole_or_out(tmp_path: Path):
    disk = RecordingDisk(tmp_path / "root")
    assert losses(disk, record(disk), tmp_path, CUTS // 2) == []


class NeverSyncsTheJournal(RecordingDisk):
    def sync_data(self, fd: int) -> None:
        """Acknowledged all the same."""


def test_a_power_cut_shows_a_disk_that_never_syncs_the_journal(tmp_path: Path):
    disk = NeverSyncsTheJournal(tmp_path / "root")
    assert losses(disk, record(disk), tmp_path, 24) != []


def run(root: Path, *, step: str, hit: int, worker: Path = Path(unit_turns.__file__)) -> int:
    """Up to its death; how many units were promised."""
    process = Worker(root, 0, step=step, hit=hit, worker=worker)
    events = process.run()
    assert process.was_killed, process.story
    assert all(offsets == [number] * 3 for _, number, offsets in events)
    return max((number + 1 for _, number, _ in events), default=0)


def check(root: Path, promised: int) -> None:
    for _ in range(2):
        with Log.open(root, settings=SETTINGS) as log:
            promised = check_units(log, promised)


@pytest.mark.parametrize("step", STEPS)
def test_every_unit_is_whole_or_out_after_a_kill_at(tmp_path: Path, step: str):
    promised = run(tmp_path / "root", step=step, hit=STEPS[step])
    check(tmp_path / "root", promised)


IN_PARTS = """
import sys
from delta_log.journal.local import LocalJournal
from tests.support import unit_turns

def append(journal, frames, payloads, real=LocalJournal.append):
    return [place for part in zip(frames, payloads) for place in real(journal, part[:1], part[1:])]

LocalJournal.append = append
unit_turns.main(*sys.argv[1:])
"""


def test_a_kill_shows_a_log_that_writes_a_unit_in_parts(tmp_path: Path):
    script = tmp_path / "broken_worker.py"
    script.write_text(IN_PARTS)
    for hit in range(10, 16):
        root = tmp_path / f"root-{hit}"
        promised = run(root, step="journal.synced", hit=hit, worker=script)
        try:
            check(root, promised)
        except Broken:
            return
    pytest.fail("nothing shows it")
