"""A sync fails, and the system takes the pages for clean: it shows what is not on the disk, until the power goes."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from unittest import mock

import pytest

from delta_log import Log, ProducerStamp, Record
from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.model.errors import OutcomeUnknown
from tests.support.logs import crash, eventually, hold_tables, values_of
from tests.support.powercut import PowerCut
from tests.support.recording_disk import Drop, RecordingDisk, Sync
from tests.support.workload import SETTINGS

VALUES = [b"0", b"1", b"2"]
PARTITIONS = 2


class ForgetfulDisk(RecordingDisk):
    """While it is sick a sync fails, and what it should have made durable is never written again by itself.

    Or it `reached` the disk all the same.
    """

    sick = False
    reached = False

    def sync(self, fd: int) -> None:
        if self.sick:
            with self._lock:
                self.steps.append((Sync if self.reached else Drop)(self._open[fd]))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(fd)

    def truncate(self, fd: int, length: int) -> None:
        if self.sick:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().truncate(fd, length)


def left_behind(disk: ForgetfulDisk, place: Path, chance: random.Random | None) -> list[bytes | None]:
    """What a start finds when the power goes now."""
    cut = PowerCut(disk.steps)
    cut.go_to(len(disk.steps))
    cut.survivors(place, chance)
    with Log.open(place, settings=SETTINGS) as log:
        return [value for index in range(PARTITIONS) for value in values_of(log, "orders", index)]


@pytest.mark.parametrize("chance", [None, random.Random(1)], ids=["nothing else", "parts of the rest"])
def test_what_a_start_shows_behind_a_failed_sync_survives_a_power_cut(tmp_path: Path, chance: random.Random | None):
    """And what it tells a producer that asks again whether its request is stored."""
    disk = ForgetfulDisk(tmp_path / "root")
    stamps = [ProducerStamp("p", 0, number) for number in range(len(VALUES))]
    log = Log.open(tmp_path / "root", settings=SETTINGS, disk=disk)
    log.create_topic("orders", partitions=PARTITIONS)
    for value, stamp in zip(VALUES[:2], stamps, strict=False):
        log.append("orders", [Record(value, partition=0)], producer=stamp)
    hold_tables(log)
    disk.sick = True
    with pytest.raises(OutcomeUnknown):
        log.append("orders", [Record(VALUES[2], partition=0)], producer=stamps[2])
    crash(log)
    disk.sick = False
    with mock.patch.object(CommitScheduler, "start"):
        log = Log.open(tmp_path / "root", settings=SETTINGS, disk=disk)
    seen = values_of(log, "orders")
    assert seen == VALUES, "the system shows it to the next process"
    assert left_behind(disk, tmp_path / "left", chance) == seen
    crash(log)


@pytest.mark.parametrize("reached", [False, True], ids=["it is not on the disk", "it is on the disk"])
def test_a_journal_that_goes_on_leaves_nothing_of_the_doubt_and_keeps_the_rest_over_a_power_cut(
    tmp_path: Path, reached: bool
):
    disk = ForgetfulDisk(tmp_path / "root")
    disk.reached = reached
    log = Log.open(tmp_path / "root", settings=SETTINGS, disk=disk)
    log.create_topic("orders", partitions=PARTITIONS)
    log.append("orders", [Record(b"kept", partition=0)])
    hold_tables(log)
    for number in range(3):
        disk.sick = True
        with pytest.raises(OutcomeUnknown):
            log.append("orders", [Record(b"nobody knows", partition=1)] * 3)
        disk.sick = False
        eventually(lambda: log._running.journal.doubt is None, "a journal that goes on")
        log.append("orders", [Record(b"%d" % number, partition=0)])
        expected = [b"kept", *(b"%d" % each for each in range(number + 1))]
        assert values_of(log, "orders") == expected
        assert left_behind(disk, tmp_path / f"left-{number}", None) == expected
        assert left_behind(disk, tmp_path / f"more-{number}", random.Random(number)) == expected
    crash(log)
