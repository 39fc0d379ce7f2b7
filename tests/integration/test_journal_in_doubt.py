"""A journal whose last write could neither be finished nor cut off: it goes on by itself once the disk is well."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from delta_log.journal import LocalJournal, Recovered
from delta_log.journal.group_format import Frame, Place, checksum
from delta_log.model.errors import NotAvailable, OutcomeUnknown, StorageRefused
from delta_log.records.payload_kinds import ROWS
from tests.support.failing_disk import FailingDisk
from tests.support.logs import eventually, no_thread_left
from tests.support.stale_disk import StaleDisk

SIZE = 4096
CODES = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE]
#: What fails of a write, and of the attempt to cut it off.
FAULTS = [
    ("sync_data", "truncate"),
    ("sync_data", "sync"),
    ("write_all", "truncate"),
    ("half", "sync"),
]


class Life:
    """One journal on a disk that can be made sick, and what a later life finds there."""

    def __init__(self, directory: Path, disk: FailingDisk | None = None) -> None:
        self.directory = directory
        self.disk = disk or FailingDisk()
        self.owner_checks: list[Exception] = []
        self.journal = self.open(1)

    def open(self, epoch: int) -> LocalJournal:
        journal = LocalJournal(self.directory, epoch, disk=self.disk, segment_size=SIZE, still_held=self._look)
        self.recovered: Recovered = journal.recover()
        return journal

    def write(self, base: int, payload: bytes) -> Place:
        frame = Frame(ROWS, "t", "id", 0, base, 1, 1, len(payload), checksum(payload), 0)
        return self.journal.append([frame], [payload])[0]

    def fall_ill(self, *names: str, code: int = errno.EIO) -> None:
        """A write fails, and cannot be cut off."""
        self.disk.fail(*names, code=code)
        with pytest.raises(OutcomeUnknown):
            self.write(1, b"nobody knows")

    def recover(self) -> None:
        """The disk is well, and the journal finds that out."""
        self.disk.mend()
        eventually(lambda: self.journal.doubt is None, "the end of the doubt")

    def replay(self) -> list[bytes]:
        """What the next life finds."""
        self.disk.mend()
        self.journal.close(empty=False)
        self.journal = self.open(2)
        return [self.journal.read(item.place) for item in self.recovered.frames if item.sound]

    def segment(self, place: Place) -> Path:
        (path,) = self.directory.glob(f"{place.epoch:010d}-{place.segment:010d}-*.seg")
        return path

    def _look(self) -> None:
        if self.owner_checks:
            raise self.owner_checks[0]


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    with no_thread_left():
        begun = Life(tmp_path / "journal")
        yield begun
        begun.disk.mend()
        begun.journal.close(empty=False)


@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
@pytest.mark.parametrize("fault", FAULTS, ids="+".join)
def test_when_the_disk_is_well_the_doubtful_write_is_cut_off_and_the_next_append_goes_on(
    life: Life, fault: tuple[str, ...], code: int
):
    kept = life.write(0, b"kept")
    life.fall_ill(*fault, code=code)
    for _ in range(3):
        with pytest.raises(StorageRefused):
            life.write(1, b"refused")
    assert os.strerror(code) in (life.journal.doubt or "")
    assert life.journal.read(kept) == b"kept"
    life.recover()
    again = life.write(1, b"second try")
    assert again.segment > kept.segment
    assert [life.journal.read(place) for place in (kept, again)] == [b"kept", b"second try"]
    assert life.segment(kept).stat().st_size == kept.position + kept.length
    assert life.replay() == [b"kept", b"second try"]
    assert (life.recovered.torn, life.recovered.damage, life.recovered.lost) == ([], [], [])


def test_it_may_be_the_very_first_write_and_happen_again_and_again(life: Life):
    for number in range(3):
        life.fall_ill("sync_data", "truncate")
        life.recover()
        assert life.journal.mended == number + 1
    life.write(0, b"at last")
    assert life.replay() == [b"at last"]
    assert (life.recovered.torn, life.recovered.damage, life.recovered.lost) == ([], [], [])


@pytest.mark.parametrize("still", ["rename", "write", "create", "sync_directory", "truncate"])
def test_while_the_disk_takes_only_a_part_of_what_it_needs_nothing_is_written_and_nothing_piles_up(
    life: Life, still: str
):
    life.write(0, b"kept")
    life.fall_ill("sync_data", "sync")
    life.disk.mend()
    life.disk.fail(still)
    eventually(lambda: "cutting the failed write off" not in (life.journal.doubt or ""), "a first attempt to go on")
    assert life.journal.doubt is not None, "it says that it is ready when it is"
    with pytest.raises(StorageRefused):
        life.write(1, b"refused")
    assert len(list(life.directory.iterdir())) <= 3
    life.recover()
    life.write(1, b"second try")
    assert life.replay() == [b"kept", b"second try"]


def test_handles_that_went_stale_are_not_used_again(tmp_path: Path):
    disk = StaleDisk()
    with no_thread_left():
        life = Life(tmp_path / "journal", disk)
        kept = life.write(0, b"kept")
        disk.go_stale()
        with pytest.raises(OutcomeUnknown, match=os.strerror(errno.ESTALE)):
            life.write(1, b"nobody knows")
        life.recover()
        again = life.write(1, b"second try")
        assert [life.journal.read(place) for place in (kept, again)] == [b"kept", b"second try"]
        assert life.replay() == [b"kept", b"second try"]
        life.journal.close(empty=False)


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 3)


def turn_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def lose_all(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("harm", [shorten, turn_a_bit, lose_all])
def test_a_disk_that_came_back_without_what_was_acknowledged_is_not_written_to(
    life: Life, harm: Callable[[Path], None]
):
    kept = life.write(0, b"kept")
    path = life.segment(kept)
    life.fall_ill("sync_data", "truncate", "create")
    os.truncate(path, kept.position + kept.length)
    harm(path)
    left = path.read_bytes()
    life.disk.mend()
    eventually(lambda: "acknowledged" in (life.journal.doubt or ""), "that what is missing is named")
    with pytest.raises(StorageRefused, match="acknowledged"):
        life.write(1, b"refused")
    assert path.read_bytes() == left, "nothing is made to look whole"
    path.write_bytes(b"")


def test_a_journal_that_cannot_know_whether_it_is_still_the_owner_waits(life: Life):
    life.write(0, b"kept")
    life.fall_ill("sync_data", "truncate")
    life.owner_checks.append(StorageRefused("lakelog.json", "not mounted"))
    life.disk.mend()
    eventually(lambda: "not mounted" in (life.journal.doubt or ""), "that it looked")
    with pytest.raises(NotAvailable):
        life.write(1, b"refused")
    life.owner_checks.clear()
    life.recover()
    life.write(1, b"second try")
    assert life.replay() == [b"kept", b"second try"]


def test_a_close_amid_a_doubt_waits_for_no_disk_and_closes_nothing_twice(life: Life):
    life.write(0, b"kept")
    life.fall_ill("sync_data", "sync")
    read, write = os.pipe()  # has the number that the segment had
    life.journal.close(empty=True)
    os.write(write, b"!")
    assert os.read(read, 1) == b"!"
    os.close(read)
    os.close(write)
    assert life.replay()[0] == b"kept"


def test_a_close_that_fails_behind_a_synced_segment_costs_nothing(life: Life):
    """Some file systems say so late that they were full; what was synced is there."""
    real = life.disk.close

    def late(fd: int) -> None:
        real(fd)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    life.write(0, b"x" * 3000)
    life.disk.close = late  # type: ignore[method-assign]
    life.write(1, b"y" * 3000)
    life.disk.close = real  # type: ignore[method-assign]
    life.write(2, b"z" * 3000)
    assert [value[:1] for value in life.replay()] == [b"x", b"y", b"z"]


@pytest.mark.parametrize("after", [False, True], ids=["", "after it was done"])
@pytest.mark.parametrize("call", ["rename", "sync_directory"])
def test_a_segment_that_cannot_be_named_leaves_no_files_behind(life: Life, call: str, after: bool):
    life.write(0, b"x" * 3000)
    eventually(lambda: len(list(life.directory.glob("spare-*"))) == 2, "the next segments")
    before = len(list(life.directory.iterdir()))
    life.disk.fail(call, after=after)
    for _ in range(20):
        with pytest.raises(StorageRefused):
            life.write(1, b"y" * 3000)
    assert len(list(life.directory.iterdir())) <= before
    life.disk.mend()
    life.write(1, b"y" * 3000)
    assert [value[:1] for value in life.replay()] == [b"x", b"y"]


@pytest.mark.parametrize("after", [False, True], ids=["", "after it was done"])
@pytest.mark.parametrize("call", ["rename", "unlink"])
def test_a_segment_that_cannot_be_released_stays_until_it_can(life: Life, call: str, after: bool):
    place = life.write(0, b"x" * 3000)
    life.write(1, b"y" * 3000)
    if call == "unlink":
        os.truncate(life.segment(place), 3500)  # too small to be used once more
    life.disk.fail(call, after=after)
    life.journal.release((1, 0))
    assert life.journal.segments() == [(1, 0)]
    life.disk.mend()
    life.journal.release((1, 0))
    assert life.journal.segments() == []
    with pytest.raises(FileNotFoundError):
        life.journal.read(place)


def test_a_read_that_the_disk_fails_is_refused_and_says_nothing_of_the_content(
    life: Life, monkeypatch: pytest.MonkeyPatch
):
    place = life.write(0, b"kept")

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as sick:
        sick.setattr(os, "pread", fail)
        with pytest.raises(StorageRefused):
            life.journal.read(place)
    assert life.journal.read(place) == b"kept"
