"""Cutting the power of a recorded workload at many moments, and asking a log what is left."""

from __future__ import annotations

import os
import random
import shutil
from dataclasses import dataclass
from pathlib import Path

from delta_log import Log, Record
from tests.support.ledger import Event, Ledger
from tests.support.logs import crash
from tests.support.powercut import PowerCut
from tests.support.recording_disk import Killed, RecordingDisk
from tests.support.workload import SETTINGS, Workload

#: LAKELOG_POWER_CUTS=1000 for a long run; LAKELOG_SEED for another one.
CUTS = int(os.environ.get("LAKELOG_POWER_CUTS", "60"))
SEED = int(os.environ.get("LAKELOG_SEED", "20260101"))


@dataclass
class Recorded:
    """What a disk was told to do, and what was promised meanwhile, by the number of steps taken."""

    disk: RecordingDisk
    events: list[tuple[int, Event]]
    first: int = 0


def record(root: Path, *, turns: int, seed: int, disk: RecordingDisk | None = None) -> Recorded:
    """A workload that ends well."""
    disk = disk or RecordingDisk(root)
    with Log.open(root, settings=SETTINGS, disk=disk) as log:
        work = Workload(log, lambda: len(disk.steps), seed)
        work.run(turns)
    return Recorded(disk, work.events)


def record_killed(root: Path, *, turns: int, seed: int) -> Recorded:
    """A workload that is killed at some step, and the start behind it, up to its end."""
    chance = random.Random(seed)
    disk = RecordingDisk(root)
    first, events = 0, []
    for number in range(3):
        disk.kill_at = len(disk.steps) + chance.randint(100, 400)
        log = Log.open(root, settings=SETTINGS, disk=disk)
        work = Workload(log, lambda: len(disk.steps), seed, number)
        try:
            work.run(turns)
        except Killed:
            pass
        except Exception:
            if len(disk.steps) < disk.kill_at:
                raise
        crash(log)
        events += work.events
        disk.kill_at, first = None, len(disk.steps)
    with Log.open(root, settings=SETTINGS, disk=disk) as log:
        work = Workload(log, lambda: len(disk.steps), seed, 9)
        work.run(2)
    return Recorded(disk, events + work.events, first)


def check_cuts(recorded: Recorded, place: Path, *, cuts: int, seed: int) -> list[str]:
    """What is broken after a cut at each of so many moments; half of them leave a random part of the unsynced."""
    chance = random.Random(seed)
    total = len(recorded.disk.steps)
    moments = sorted(chance.sample(range(recorded.first, total + 1), min(cuts, total + 1 - recorded.first)))
    cut = PowerCut(recorded.disk.steps)
    broken: list[str] = []
    for number, moment in enumerate(moments):
        cut.go_to(moment)
        left = place / "left"
        cut.survivors(left, random.Random(moment) if number % 2 else None)
        try:
            check(left, Ledger(event for at, event in recorded.events if at <= moment))
        except Exception as error:  # noqa: BLE001 - whatever stops a log from being read is a loss
            broken.append(f"seed {seed}, cut at step {moment} of {total}: {error!r}")
        shutil.rmtree(left)
    return broken


def check(root: Path, ledger: Ledger) -> None:
    """Open what is left, once as it is, and once more after it was used and closed."""
    with Log.open(root, settings=SETTINGS) as log:
        ledger.check(log)
        ledger.check_repeats(log)
        for topic in log.topics():
            life = log.describe_topic(topic).id
            answer = log.append(topic, [Record(b"after the cut")])
            (given,) = answer.ranges
            ledger.take(("acked", topic, life, given.partition, given.base_offset, ["after the cut"]))
    with Log.open(root, settings=SETTINGS) as log:
        ledger.check(log)
        ledger.check_tables(log)
