"""A disk without room, for real: appends are refused, reads go on, and with room again everything does by itself."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest
from deltalake import DeltaTable

from delta_log import Log, LogReader, Record, Settings
from delta_log.model.errors import DiskFull, LakelogError, NotAvailable, OutcomeUnknown
from delta_log.operations import backup, check, repair, restore
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.syscalls import Disk
from lakelog.cli.doctor.root import examine_root
from tests.architecture.project_files import ROOT
from tests.support.failing_disk import FailingDisk
from tests.support.logs import DEADLINE_S, Clock, crash, eventually, values_of
from tests.support.small_disk import fill, small_disk

SETTINGS = Settings(segment_bytes=256 * 1024, max_block_s=0.2, tail_bytes=0)
CONFIG = {"lakelog.commit.interval.ms": 100}
SIZE = 40_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", megabytes=16) as place:
        yield place


def opened(disk: Path, settings: Settings = SETTINGS) -> Log:
    return Log.open(disk / "root", settings=settings)


def value(number: int) -> bytes:
    """One that no codec makes small."""
    import random

    return b"%06d" % number + random.Random(number).randbytes(SIZE)


class Sender:
    """Appends one record after the other and knows what became of each."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.sent = 0
        self.stored: list[bytes] = []
        self.refused: list[LakelogError] = []

    def send(self) -> bool:
        sent = value(self.sent)
        self.sent += 1
        try:
            answer = self.log.append("orders", [Record(sent)])
        except OutcomeUnknown:
            raise
        except NotAvailable as error:
            self.refused.append(error)
            return False
        assert answer.offsets() == [len(self.stored)]
        self.stored.append(sent)
        return True


def send_until_refused(sender: Sender) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while sender.send():
        assert time.monotonic() < deadline


def test_a_log_on_a_full_disk_refuses_reads_on_and_goes_on_by_itself_when_there_is_room(disk: Path):
    with opened(disk) as log:
        log.create_topic("orders", config=CONFIG)
        sender = Sender(log)
        assert sender.send()
        log.flush()
        ballast = fill(disk)
        send_until_refused(sender)
        assert all(error.outcome == "not_attempted" for error in sender.refused)
        with pytest.raises(NotAvailable):
            log.create_topic("another")
        assert not sender.send()
        assert values_of(log, "orders") == sender.stored
        assert values_of(LogReader.open(disk / "root"), "orders")[:1] == sender.stored[:1]

        ballast.unlink()
        eventually(sender.send, "an append after there was room again")
        eventually(lambda: log._running.writer.untabled == 0, "the table with all of it")
        assert values_of(log, "orders") == sender.stored
        log.create_topic("another")
    rows = DeltaTable(str(disk / "root/topics/orders")).to_pyarrow_table(columns=["offset", "value"]).sort_by("offset")
    assert rows.column("value").to_pylist() == sender.stored
    assert check(disk / "root").exit_code == 0


def test_a_log_that_died_on_a_full_disk_has_all_that_was_acknowledged_and_can_be_looked_at(disk: Path):
    log = opened(disk, Settings(upkeep=False, segment_bytes=256 * 1024, max_block_s=0.2))
    log.create_topic("orders")
    sender = Sender(log)
    assert sender.send()
    ballast = fill(disk)
    send_until_refused(sender)
    crash(log)
    fill(disk)
    with opened(disk) as again:
        assert values_of(again, "orders") == sender.stored
        sender.log = again
        assert not sender.send()
        with pytest.raises(DiskFull):
            again.delete_topic("orders")
        again.run_upkeep()
        assert values_of(again, "orders") == sender.stored
        ballast.unlink()
        eventually(sender.send, "an append after there was room again")
        assert values_of(again, "orders") == sender.stored
    with opened(disk) as third:
        assert third.epoch == again.epoch + 1
        assert values_of(third, "orders") == sender.stored
    assert check(disk / "root").exit_code == 0


HELD = Settings(ballast_bytes=64 * 1024 * 1024, segment_bytes=256 * 1024, max_block_s=0.2, tail_bytes=0)
#: A 32nd of a disk of 64 MB.
BALLAST = 2 * 1024 * 1024


def held(root: Path) -> int:
    """What the ballast takes."""
    found = 0
    for path in (root / "journal").glob("ballast-*"):
        with suppress(FileNotFoundError):  # given back meanwhile
            found += path.stat().st_blocks * 512
    return found


@pytest.fixture
def larger(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "larger", megabytes=64) as place:
        yield place


def fill_up_to_refusal(disk: Path, sender: Sender) -> None:
    """Full for the log, and then all that it gave back is taken."""
    fill(disk)
    send_until_refused(sender)
    eventually(lambda: held(disk / "root") <= BALLAST // 2, "the half that is given back")
    fill(disk)


def test_a_topic_that_is_deleted_on_a_full_disk_makes_room_within_the_shortest_history(larger: Path):
    clock = Clock()
    with Log.open(larger / "root", settings=HELD, clock_ms=clock) as log:
        log.create_topic("orders", config=CONFIG)
        log.create_topic("drafts", config=CONFIG)
        for number in range(300):
            log.append("drafts", [Record(value(number))])
        log.flush()
        eventually(lambda: held(larger / "root") == BALLAST, "the ballast")
        sender = Sender(log)
        assert sender.send()
        fill_up_to_refusal(larger, sender)
        with pytest.raises(DiskFull):
            log.create_topic("another")
        with pytest.raises(DiskFull):
            log.add_partitions("orders", 2)
        log.delete_topic("drafts")
        assert not sender.send()
        clock.turn(60_001)
        eventually(sender.send, "an append after there was room again")
        eventually(lambda: held(larger / "root") == BALLAST, "the ballast as it was")
        assert values_of(log, "orders") == sender.stored
        log.create_topic("drafts")
    assert check(larger / "root").exit_code == 0


def test_retention_of_a_log_on_a_full_disk_makes_room_when_the_history_is_over(larger: Path):
    now_ms = wall_clock_ms()
    clock = Clock(now_ms)
    with Log.open(larger / "root", settings=HELD, clock_ms=clock) as log:
        log.create_topic("orders", config=CONFIG)
        sender = Sender(log)
        for number in range(200):
            assert sender.send()
            if number % 20 == 0:  # so that there are files for retention to take
                log.flush()
        log.flush()
        eventually(lambda: held(larger / "root") == BALLAST, "the ballast")
        fill_up_to_refusal(larger, sender)
        log.alter_topic("orders", {"retention.bytes": 10 * SIZE, "lakelog.history.ms": 60_000})
        assert log.run_retention("orders")
        assert not sender.send()
        start = log.offsets("orders", 0).log_start_offset
        clock.turn(60_001)
        eventually(sender.send, "an append after there was room again")
        assert values_of(log, "orders") == sender.stored[start:]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT], ids=["no space", "quota"])
def test_whatever_a_disk_says_of_room_is_believed_and_ends_by_itself(tmp_path: Path, code: int):
    """A quota is nothing that a look at the disk could see."""
    disk = FailingDisk()
    settings = replace(HELD, ballast_bytes=BALLAST)
    with Log.open(tmp_path / "root", settings=settings, disk=disk) as log:
        log.create_topic("orders", config=CONFIG)
        assert log.append("orders", [Record(b"1")]).offsets() == [0]
        eventually(lambda: held(tmp_path / "root") == BALLAST, "the ballast")
        disk.fail("write", "write_all", "allocate", code=code)
        with pytest.raises(DiskFull):
            log.append("orders", [Record(b"2")])
        assert log.refuses is not None
        eventually(lambda: held(tmp_path / "root") <= BALLAST // 2, "the half that is given back")
        with pytest.raises(DiskFull) as refused:
            log.append("orders", [Record(b"2")])
        assert refused.value.outcome == "not_attempted"
        disk.mend()
        eventually(lambda: log.refuses is None, "room")
        assert log.append("orders", [Record(b"2")]).offsets() == [1]
        assert held(tmp_path / "root") == BALLAST
        assert values_of(log, "orders") == [b"1", b"2"]


def test_a_ballast_is_no_damage_to_a_check_and_nothing_to_a_backup(tmp_path: Path):
    root = tmp_path / "root"
    with Log.open(root, settings=replace(HELD, ballast_bytes=BALLAST)) as log:
        log.create_topic("orders")
        log.append("orders", [Record(b"1")])
        eventually(lambda: held(root) == BALLAST, "the ballast")
        assert check(root).exit_code == 0
    assert held(root) == BALLAST
    assert check(root).exit_code == 0
    assert repair(root, dry_run=True).exit_code == 0
    backup(root, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "other")
    assert held(tmp_path / "copy") == held(tmp_path / "other") == 0
    assert values_of(LogReader.open(tmp_path / "other"), "orders") == [b"1"]
    with Log.open(root) as log:
        eventually(lambda: held(root) == 0, "the end of a ballast that is not wanted any more")
        assert values_of(log, "orders") == [b"1"]


class NoReserving(Disk):
    """A system that keeps no zeros: a reservation is a hole."""

    def allocate(self, fd: int, length: int) -> None:
        with mock.patch("os.posix_fallocate", lambda fd, _, size: os.ftruncate(fd, size)):
            super().allocate(fd, length)


def test_where_blocks_cannot_be_reserved_they_are_written(tmp_path: Path):
    with Log.open(tmp_path / "root", settings=replace(HELD, ballast_bytes=BALLAST), disk=NoReserving()):
        eventually(lambda: held(tmp_path / "root") >= BALLAST, "the ballast")


def test_a_ballast_of_holes_is_none_and_is_made_at_the_next_start(tmp_path: Path):
    journal = tmp_path / "root" / "journal"
    journal.mkdir(parents=True)
    for index in range(8):
        with (journal / f"ballast-{index}").open("wb") as file:
            file.truncate(BALLAST // 8)
    with Log.open(tmp_path / "root", settings=replace(HELD, ballast_bytes=BALLAST)):
        eventually(lambda: held(tmp_path / "root") == BALLAST, "the ballast")


@pytest.mark.parametrize(
    ("step", "hit"),
    [
        *(("ballast.made", hit) for hit in (1, 4, 8)),
        *(("ballast.given_back", hit) for hit in (1, 3, 4)),
        ("ballast.made", 10),
        ("ballast.made", 12),
    ],
)
def test_a_kill_at_any_step_of_making_and_giving_back_leaves_a_log_that_starts_with_all_of_it(
    larger: Path, step: str, hit: int
):
    root = larger / "root"
    command = [sys.executable, "-m", "tests.support.ballast_worker", str(root), step, str(hit)]
    died = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=DEADLINE_S, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr.decode()
    acknowledged = [int(line) for line in died.stdout.split()]
    fill(larger)
    with Log.open(root, settings=HELD) as log:
        stored = [int(found or b"") for found in values_of(log, "orders")] if log.topics() else []
        assert stored[: len(acknowledged)] == acknowledged
        assert stored == list(range(len(stored)))
        assert len(stored) <= len(acknowledged) + 1, "one may be stored and not answered"
        (larger / "ballast").unlink()
        eventually(lambda: held(root) == BALLAST, "the ballast")
        eventually(lambda: log.refuses is None, "room")
        if not log.topics():
            log.create_topic("orders")
        assert log.append("orders", [Record(b"%06d" % len(stored))]).offsets() == [len(stored)]
    assert check(root).exit_code == 0


def test_the_doctor_tells_what_is_held_in_reserve(tmp_path: Path):
    with Log.open(tmp_path / "root", settings=replace(HELD, ballast_bytes=BALLAST)):
        eventually(lambda: held(tmp_path / "root") == BALLAST, "the ballast")
        findings, _ = examine_root(str(tmp_path / "root"))
        (space,) = [finding for finding in findings if finding.check == "free space"]
        assert space.said.endswith(", and 2 MiB of ballast")
