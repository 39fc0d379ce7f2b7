"""The power goes as really as one machine can have it: a copy of the disk itself, without what was only in memory.

The root lies on ext4 in a file. At a random moment the process that writes to it is stopped amid its work, and the
file is copied: what the system had not brought to the disk is not in the copy. Mounted, it replays its own journal, and
then we ours.

A process stops once the syncs that its threads are in have ended, so no copy falls inside of one: what a disk may hold
in the middle of a sync is for `test_power_cut.py`, on a disk that records every step.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from delta_log.operations import check
from tests.support.killing import Worker, check_after_death
from tests.support.ledger import Ledger
from tests.support.small_disk import mounted

#: LAKELOG_POWER_ROUNDS=50 for a long run; LAKELOG_SEED for other moments.
ROUNDS = int(os.environ.get("LAKELOG_POWER_ROUNDS", "3"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
MEGABYTES = 96


def copy_at_one_moment(image: Path, copy: Path) -> None:
    """Nobody writes, but the system may be bringing something to the disk: then once more."""
    for _ in range(100):
        before = image.stat().st_mtime_ns
        shutil.copyfile(image, copy)
        if image.stat().st_mtime_ns == before:
            return
    raise AssertionError("the disk did not come to rest")


@pytest.mark.parametrize("number", range(ROUNDS))
def test_everything_acknowledged_or_seen_is_on_a_copy_of_the_disk_under_load(tmp_path: Path, number: int):
    image, copy = tmp_path / "disk.img", tmp_path / "copy.img"
    with image.open("wb") as file:
        file.truncate(MEGABYTES * 1024 * 1024)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", str(image)], check=True, timeout=30)
    after = random.Random(SEED + number).randint(50, 800)
    with mounted(tmp_path / "disk", "-o", "loop", image) as disk:
        worker = Worker(disk / "root", number)
        events = worker.run(kill_after=after, before_kill=lambda: copy_at_one_moment(image, copy))
        assert worker.was_killed, worker.story
    assert len(events) >= after - 1
    with mounted(tmp_path / "left", "-o", "loop", copy) as left:
        check_after_death(left / "root", Ledger(events))
        assert check(left / "root").exit_code == 0
