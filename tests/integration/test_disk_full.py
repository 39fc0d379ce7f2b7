"""A disk without room, for real: appends are refused, reads go on, and with room again everything does by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable

from delta_log import Log, LogReader, Record, Settings
from delta_log.errors import LakelogError, NotAvailable, OutcomeUnknown
from delta_log.operators import check
from tests.support.logs import DEADLINE_S, crash, eventually, values_of
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
    with pytest.raises(LakelogError):
        opened(disk)
    ballast.unlink()
    with opened(disk) as again:
        assert values_of(again, "orders") == sender.stored
        sender.log = again
        assert sender.send()
    assert check(disk / "root").exit_code == 0
