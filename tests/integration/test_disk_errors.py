"""A disk that fails amid a write (EIO): what became of it is never said to be better known than it is.

Refused means that it is nowhere, now and after a restart; unknown, that nothing is written behind it before it is cut
off; and only what was answered counts as stored.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from delta_log import Log, LogReader, Record, Settings
from delta_log.model.errors import NotAvailable, OutcomeUnknown
from delta_log.operations import check
from tests.support.failing_disk import FailingDisk
from tests.support.logs import DEADLINE_S, crash, eventually, hold_tables, no_thread_left, values_of

SETTINGS = Settings(upkeep=False, segment_bytes=8192, max_block_s=0.0, tail_bytes=0)

#: What fails, and whether it fails after it was done.
JOURNAL = [
    (("write_all",), False),
    (("write_all",), True),
    (("half",), False),
    (("sync_data",), False),
    (("sync_data",), True),
    (("sync_data", "truncate"), False),
    (("sync_data", "sync"), False),
    (("half", "sync"), False),
    (("rename",), False),
    (("rename",), True),
    (("create",), False),
    (("write",), False),
    (("sync",), False),
    (("sync_directory",), False),
]
TABLE = [
    (("create",), False),
    (("write",), False),
    (("sync",), False),
    (("link",), False),
    (("link",), True),
    (("rename",), False),
    (("rename",), True),
    (("sync_directory",), False),
]


def names(of: tuple[tuple[str, ...], bool]) -> str:
    return "+".join(of[0]) + (" after it was done" if of[1] else "")


@pytest.mark.parametrize("fault", JOURNAL, ids=names)
@pytest.mark.parametrize("size", [100, 3000], ids=["within a segment", "over segments"])
@pytest.mark.parametrize("killed", [True, False], ids=["killed amid it", "until the disk is well"])
def test_an_append_that_the_disk_failed_is_refused_or_unknown_and_never_acknowledged(
    tmp_path: Path, fault: tuple[tuple[str, ...], bool], size: int, killed: bool
):
    disk = FailingDisk()
    log = Log.open(tmp_path / "root", settings=SETTINGS, disk=disk)
    log.create_topic("orders")
    hold_tables(log)
    stored: list[bytes] = []
    unknown: list[bytes] = []
    broken: list[bytes] = []

    def send(number: int) -> None:
        value = (b"%03d" % number).ljust(size, b"x")
        try:
            answer = log.append("orders", [Record(value)])
        except OutcomeUnknown:
            unknown.append(value)
        except NotAvailable:
            broken.append(value)
        else:
            assert log._running.journal.doubt is None, "nothing is appended behind what is unknown"
            assert answer.offsets() == [len(stored)]
            stored.append(value)

    for number in range(3):
        send(number)
    operations, after = fault
    disk.fail(*operations, after=after)
    for number in range(3, 9):
        send(number)
    assert values_of(log, "orders") == stored, "a reader sees what was answered and nothing else"
    assert len(unknown) <= 1
    before = len(stored)
    if not killed:
        disk.mend()
        eventually(lambda: log._running.journal.doubt is None, "a journal that goes on")
        for number in range(9, 12):
            send(number)
        assert len(stored) == before + 3
        unknown.clear()  # cut off: it is not there any more, and never will be
    crash(log)
    for _ in range(2):
        with Log.open(tmp_path / "root", settings=SETTINGS) as again:
            assert values_of(again, "orders") in (stored, [*stored, *unknown])
    assert check(tmp_path / "root").exit_code == 0


@pytest.mark.parametrize("fault", TABLE, ids=names)
def test_a_commit_that_the_disk_failed_is_made_once_when_the_disk_is_well_again(
    tmp_path: Path, fault: tuple[tuple[str, ...], bool]
):
    disk = FailingDisk()
    config = {"lakelog.commit.interval.ms": 100}
    with no_thread_left(), Log.open(tmp_path / "root", settings=SETTINGS, disk=disk) as log:
        log.create_topic("orders", config=config)
        log.append("orders", [Record(b"0")])
        log.flush()
        operations, after = fault
        disk.fail(*operations, after=after)
        waiting = log.when_tabled("orders", log.append("orders", [Record(b"1")]))
        # What failed after it was done is found to be ours when it is tried again, which may be at once.
        eventually(lambda: log.statistics().commit_failures or waiting.done(), "a commit that fails")
        assert after or not waiting.done()
        assert values_of(log, "orders") == [b"0", b"1"]
        disk.mend()
        waiting.result(DEADLINE_S)
        log.append("orders", [Record(b"2")])
        log.flush()
        assert values_of(log, "orders") == [b"0", b"1", b"2"]
    rows = DeltaTable(str(tmp_path / "root/topics/orders")).to_pyarrow_table(columns=["value"])
    assert sorted(rows.column("value").to_pylist()) == [b"0", b"1", b"2"]
    assert check(tmp_path / "root").exit_code == 0


@pytest.mark.parametrize("fault", TABLE, ids=names)
def test_a_change_that_the_disk_failed_is_made_or_refused_or_said_to_be_unknown(
    tmp_path: Path, fault: tuple[tuple[str, ...], bool]
):
    """Refused means that nobody sees it, now or later."""
    disk = FailingDisk()
    said = ""
    with Log.open(tmp_path / "root", settings=SETTINGS, disk=disk) as log:
        log.create_topic("orders")
        operations, after = fault
        disk.fail(*operations, after=after)
        try:
            log.alter_topic("orders", {"retention.ms": 5})
            said = "made"
        except NotAvailable:
            said = "refused"
        except OutcomeUnknown:
            said = "unknown"
        disk.mend()
        seen = LogReader.open(tmp_path / "root").describe_topic("orders").config.retention_ms == 5
        assert said == "unknown" or seen == (said == "made")
        assert log.append("orders", [Record(b"0")]).offsets() == [0]
        log.alter_topic("orders", {"retention.ms": 6})
    with Log.open(tmp_path / "root", settings=SETTINGS) as log:
        assert log.describe_topic("orders").config.retention_ms == 6
    assert check(tmp_path / "root").exit_code == 0
