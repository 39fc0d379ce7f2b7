"""A log whose disk was sick: it goes on only where it is still the owner, and nothing else of it is worse for it."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from delta_log import Limits, Log, Record
from delta_log.journal import LocalJournal
from delta_log.model.errors import LakelogError, NotOwner, OutcomeUnknown, RootInUse, StorageRefused
from delta_log.root.owner_epoch import writer_path
from delta_log.root.root import ROOT_FILE
from tests.support.failing_disk import FailingDisk
from tests.support.logs import crash, eventually, hold_tables, no_thread_left, replace_settings, values_of

SETTINGS = replace_settings(segment_bytes=8192, tail_bytes=0)


class Owner:
    """A log on a disk that can be made sick."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.disk = FailingDisk()
        self.log = Log.open(root, settings=SETTINGS, disk=self.disk)
        self.log.create_topic("orders")
        self.append(b"kept")
        hold_tables(self.log)

    def append(self, value: bytes) -> None:
        self.log.append("orders", [Record(value)])

    def fall_ill(self) -> None:
        self.disk.fail("sync_data", "truncate", "create")
        with pytest.raises(OutcomeUnknown):
            self.append(b"nobody knows")

    def segments(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.root / "journal").glob("*.seg")}

    def says(self, words: str) -> bool:
        return words in (self.log.refuses or "")


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    with no_thread_left():
        made = Owner(tmp_path / "root")
        yield made
        made.disk.mend()
        crash(made.log)


def another_file(root: Path) -> None:
    """The same, but for the lock: as a disk that was mounted once more would have."""
    shutil.copy2(root / ROOT_FILE, root / "copy")
    (root / "copy").rename(root / ROOT_FILE)


def has_the_lock(root: Path) -> Callable[[], None]:
    another_file(root)
    fd = os.open(root / ROOT_FILE, os.O_RDWR)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lambda: os.close(fd)


def had_it_and_ended(root: Path) -> Callable[[], None]:
    another_file(root)
    shutil.copy2(root / writer_path(1), root / writer_path(2))
    return lambda: None


@pytest.mark.parametrize("other", [has_the_lock, had_it_and_ended])
def test_a_root_that_another_process_took_meanwhile_is_not_written_to(
    owner: Owner, other: Callable[[Path], Callable[[], None]]
):
    owner.fall_ill()
    end = other(owner.root)
    before = owner.segments()
    owner.disk.mend()

    def refusal() -> LakelogError | None:
        try:
            owner.append(b"refused")
        except StorageRefused:
            return None
        except LakelogError as error:
            return error
        raise AssertionError("it was written to")

    eventually(lambda: isinstance(refusal(), NotOwner), "that it knows of the other")
    assert owner.log.statistics().ownership_lost
    assert owner.segments() == before
    end()


def test_a_lock_that_was_lost_with_its_disk_is_taken_again(owner: Owner):
    owner.fall_ill()
    another_file(owner.root)
    owner.disk.mend()
    eventually(lambda: owner.log.refuses is None, "a log that goes on")
    owner.append(b"next")
    with pytest.raises(RootInUse):
        Log.open(owner.root)
    assert values_of(owner.log, "orders") == [b"kept", b"next"]


def test_a_root_that_is_not_mounted_is_waited_for(owner: Owner, tmp_path: Path):
    owner.fall_ill()
    owner.root.rename(tmp_path / "away")
    owner.root.mkdir()
    owner.disk.mend()
    eventually(lambda: owner.says(ROOT_FILE), "that it misses its root")
    with pytest.raises(StorageRefused):
        owner.append(b"refused")
    assert list(owner.root.iterdir()) == [], "nothing is made where the root should be"
    owner.root.rmdir()
    (tmp_path / "away").rename(owner.root)
    eventually(lambda: owner.log.refuses is None, "a log that goes on")
    owner.append(b"next")
    assert values_of(owner.log, "orders") == [b"kept", b"next"]


def test_a_stop_amid_a_doubt_leaves_it_to_the_next_start(tmp_path: Path):
    with no_thread_left():
        owner = Owner(tmp_path / "root")
        owner.fall_ill()
        with suppress(LakelogError):
            owner.log.close()
        owner.disk.mend()
    with Log.open(owner.root, settings=SETTINGS) as log:
        assert values_of(log, "orders") in ([b"kept"], [b"kept", b"nobody knows"])
        log.append("orders", [Record(b"next")])


def test_a_close_that_cannot_empty_the_journal_lets_the_root_go_and_the_next_start_finds_everything(tmp_path: Path):
    owner = Owner(tmp_path / "root")
    owner.disk.fail("unlink")
    with no_thread_left():
        owner.log.close()
    with Log.open(owner.root, settings=SETTINGS) as log:
        assert values_of(log, "orders") == [b"kept"]


class SegmentsStay(FailingDisk):
    """Segments can be neither renamed nor deleted, and everything else can."""

    def _is_segment(self, path: str) -> bool:
        return path.endswith(".seg") and "stay" in self.failing

    def rename(self, source, target):
        if self._is_segment(source):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().rename(source, target)

    def unlink(self, path):
        if self._is_segment(path):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().unlink(path)


def test_a_segment_that_cannot_be_released_closes_no_topic_and_ends_no_upkeep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(LocalJournal, "kept_segments", 1)
    disk = SegmentsStay()
    with Log.open(tmp_path / "root", settings=SETTINGS, disk=disk) as log:
        for topic in ("orders", "bills"):
            log.create_topic(topic, config={"lakelog.commit.interval.ms": 100})
        log.append("bills", [Record(b"held")])
        hold_tables(log)
        disk.fail("stay")
        for number in range(5):
            log.append("orders", [Record(b"%d" % number + bytes(5000))])
        held = log._running.journal.segments()
        assert len(held) >= 4
        log.flush("orders")
        log.run_upkeep()
        assert log.statistics().closed == {}
        assert set(held) <= set(log._running.journal.segments())
        disk.mend()
        log.append("orders", [Record(b"5")])
        log.flush("bills")
        log.flush("orders")
        assert not set(held) & set(log._running.journal.segments())
        assert [value[:1] for value in values_of(log, "orders") if value] == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_a_journal_that_cannot_be_read_for_a_while_closes_no_topic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What is beyond the memory for it is read from the journal when its table is written."""

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    settings = replace_settings(limits=Limits(memory_bytes=0))
    with Log.open(tmp_path / "root", settings=settings) as log:
        log.create_topic("orders", config={"lakelog.commit.interval.ms": 100})
        with monkeypatch.context() as sick:
            sick.setattr(os, "pread", fail)
            appended = log.append("orders", [Record(b"0")])
            waiting = log.when_tabled("orders", appended)
            eventually(lambda: log.statistics().commit_failures, "a commit that fails")
            with pytest.raises(StorageRefused):
                values_of(log, "orders")
        waiting.result(40)
        assert log.statistics().closed == {}
        assert values_of(log, "orders") == [b"0"]
