"""The journal of a directory: rolling, recycling, and what a failing disk can do to it."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from delta_log.journal import LocalJournal, Recovered
from delta_log.journal.group_format import Frame, Place, checksum
from delta_log.model.errors import OutcomeUnknown, StorageRefused
from delta_log.records.payload_kinds import ROWS
from tests.support.failing_disk import FailingDisk

SIZE = 4096


class Lives:
    """A journal's directory over several lives."""

    def __init__(self, path: Path) -> None:
        self.path = path / "journal"
        self.disk = FailingDisk()
        self.epoch = 0
        self.journal: LocalJournal | None = None
        self.recovered = Recovered()

    def begin(self) -> LocalJournal:
        self.end()
        self.epoch += 1
        self.journal = LocalJournal(self.path, self.epoch, disk=self.disk, segment_size=SIZE)
        self.recovered = self.journal.recover()
        return self.journal

    def end(self) -> None:
        """As a kill would, but for the threads."""
        if self.journal is not None:
            self.disk.mend()
            self.journal.close(empty=False)
            self.journal = None

    def write(self, base: int, payload: bytes) -> Place:
        assert self.journal is not None
        frame = Frame(ROWS, "t", "id", 0, base, 1, self.epoch, len(payload), checksum(payload), 0)
        return self.journal.append([frame], [payload])[0]

    def replay(self) -> list[int]:
        """The base offsets of all sound frames that the next life finds."""
        self.begin()
        return [item.frame.base_offset for item in self.recovered.frames if item.sound]

    def names(self, prefix: str = "") -> list[str]:
        return sorted(path.name for path in self.path.iterdir() if path.name.startswith(prefix))

    def segment(self, place: Place) -> Path:
        (path,) = self.path.glob(f"{place.epoch:010d}-{place.segment:010d}-*.seg")
        return path


@pytest.fixture
def lives(tmp_path: Path):
    made = Lives(tmp_path)
    made.begin()
    yield made
    made.end()


def test_a_full_segment_is_followed_by_the_next(lives: Lives):
    places = [lives.write(number, b"x" * 1000) for number in range(9)]
    assert [place.segment for place in places] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert lives.journal.segments() == [(1, 0), (1, 1)]
    assert lives.replay() == list(range(9))
    assert lives.journal.segments() == [(1, 0), (1, 1), (1, 2)]


def test_a_group_larger_than_a_segment_has_one_of_its_own_size(lives: Lives):
    places = [lives.write(0, b"s"), lives.write(1, b"L" * 50_000), lives.write(2, b"s")]
    assert [place.segment for place in places] == [0, 1, 2]
    assert lives.replay() == [0, 1, 2]
    for segment in lives.journal.segments():
        lives.journal.release(segment)
    sizes = {(lives.path / name).stat().st_size for name in lives.names("spare-")}
    assert sizes == {SIZE}, "only segments of the usual size wait for their turn again"


def test_a_released_segment_is_used_once_more_and_its_old_groups_are_never_replayed(lives: Lives):
    for number in range(30):
        lives.write(number, b"x" * (700 + 100 * (number % 3)))
        for segment in lives.journal.segments():
            lives.journal.release(segment)
    kept = lives.replay()
    assert kept == list(range(30))[-len(kept) :]
    assert len(kept) <= 5
    assert (lives.recovered.torn, lives.recovered.damage) == ([], [])
    lives.write(30, b"y")
    assert lives.replay() == [*kept, 30]


def test_spares_are_taken_over_by_the_next_life(lives: Lives):
    for number in range(9):
        lives.write(number, b"x" * 1000)
    for segment in lives.journal.segments():
        lives.journal.release(segment)
    lives.end()  # no more of them are being made
    before = len(lives.names("spare-"))
    assert before > 0
    lives.begin()
    assert len(lives.names("spare-")) == before
    (lives.path / "spare-half-made").write_bytes(b"\0" * 10)
    lives.begin()
    assert "spare-half-made" not in lives.names()
    lives.write(9, b"in a used segment")
    assert lives.replay()[-1] == 9


def test_closed_empty_only_what_was_set_aside_stays(lives: Lives):
    first = lives.write(0, b"x" * 3000)
    lives.write(1, b"y" * 3000)
    lives.journal.release((first.epoch, first.segment), aside=True)
    lives.journal.close(empty=True)
    assert [name.split("-")[0] for name in lives.names()] == ["aside"]


@pytest.mark.parametrize("call", ["write_all", "half", "sync_data"])
def test_a_failed_write_is_cut_off_and_the_next_append_goes_on_in_a_new_segment(lives: Lives, call: str):
    kept = lives.write(0, b"kept")
    lives.disk.fail(call)
    with pytest.raises(StorageRefused):
        lives.write(1, b"never stored")
    lives.disk.mend()
    assert lives.segment(kept).stat().st_size == kept.position + kept.length
    again = lives.write(1, b"second try")
    assert again.segment == kept.segment + 1
    assert [lives.journal.read(place) for place in (kept, again)] == [b"kept", b"second try"]
    assert lives.replay() == [0, 1]
    assert [lives.journal.read(item.place) for item in lives.recovered.frames] == [b"kept", b"second try"]
    assert (lives.recovered.torn, lives.recovered.damage, lives.recovered.lost) == ([], [], [])


def test_failures_in_a_row_each_cost_a_segment_and_lose_nothing(lives: Lives):
    lives.write(0, b"kept")
    for _ in range(3):
        lives.disk.fail("sync_data")
        with pytest.raises(StorageRefused):
            lives.write(1, b"never stored")
        lives.disk.mend()
    lives.write(1, b"at last")
    assert lives.replay() == [0, 1]
    assert (lives.recovered.torn, lives.recovered.damage, lives.recovered.lost) == ([], [], [])


def test_the_very_first_write_may_fail(lives: Lives):
    lives.disk.fail("half")
    with pytest.raises(StorageRefused):
        lives.write(0, b"never stored")
    lives.disk.mend()
    lives.write(0, b"second try")
    assert lives.replay() == [0]


@pytest.mark.parametrize("cure", ["truncate", "sync"])
def test_what_cannot_be_cut_off_is_unknown_and_nothing_is_appended_before_a_restart_or_a_disk_that_is_well(
    lives: Lives, cure: str
):
    lives.write(0, b"kept")
    lives.disk.fail("sync_data", cure)
    with pytest.raises(OutcomeUnknown):
        lives.write(1, b"nobody knows")
    for _ in range(2):
        with pytest.raises(StorageRefused, match="in doubt"):
            lives.write(2, b"refused")
    lives.journal.close(empty=True)
    lives.disk.mend()
    lives.journal = None
    found = lives.replay()
    assert found in ([0], [0, 1])
    assert lives.write(len(found), b"after the restart").epoch == 2


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename", "sync_directory"])
def test_no_room_for_a_new_segment_refuses_the_append_and_the_next_may_follow(lives: Lives, call: str):
    lives.write(0, b"x" * 1000)
    lives.begin()
    assert lives.names("spare-") == []
    lives.disk.fail(call, code=errno.ENOSPC)
    for _ in range(2):
        with pytest.raises(StorageRefused, match="No space left"):
            lives.write(1, b"y" * 1000)
    lives.disk.mend()
    lives.write(1, b"y" * 1000)
    assert lives.replay() == [0, 1]
    assert (lives.recovered.torn, lives.recovered.damage) == ([], [])


def test_while_no_segment_can_be_made_what_fits_in_the_present_one_is_still_taken(lives: Lives):
    lives.write(0, b"x" * 1000)
    lives.disk.fail("create", code=errno.ENOSPC)
    with pytest.raises(StorageRefused):
        lives.write(1, b"y" * 5000)
    assert lives.write(1, b"y").segment == 0
    assert lives.replay() == [0, 1]


def test_a_spare_that_cannot_be_prepared_costs_nobody_an_append(lives: Lives):
    lives.write(0, b"x" * 1000)
    lives.disk.fail("create", code=errno.ENOSPC)
    lives.write(1, b"x" * 1500)
    lives.end()
    assert lives.replay() == [0, 1]


def cut(path: Path, length: int) -> None:
    os.truncate(path, length)


def halve(path: Path, length: int) -> None:
    """The blocks behind `length` never reached the disk."""
    data = path.read_bytes()
    path.write_bytes(data[:length] + bytes(len(data) - length))


@pytest.mark.parametrize("tear", [cut, halve])
@pytest.mark.parametrize("back", [1, 30, 90, 150])
def test_a_torn_end_recovered_twice_gives_the_same(lives: Lives, tear: Callable[[Path, int], None], back: int):
    lives.write(0, b"kept")
    last = lives.write(1, b"torn" * 20)
    path = lives.segment(last)
    lives.end()
    tear(path, last.position + last.length - back)
    assert lives.replay() == [0]
    assert lives.replay() == [0]
    assert (lives.recovered.damage, lives.recovered.lost) == ([], [])
    lives.write(1, b"given out again")
    assert lives.replay() == [0, 1]


def test_what_a_start_replayed_is_damage_and_no_torn_end_when_it_rots_later(lives: Lives):
    last = lives.write(0, b"shown to readers")
    path = lives.segment(last)
    assert lives.replay() == [0]
    assert path.stat().st_size == last.position + last.length
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        assert lives.replay() == []
        assert [lost.note.base_offset for lost in lives.recovered.lost] == [0]
        assert lives.recovered.torn == []


@pytest.mark.parametrize("size", range(3940, 3960))
def test_no_group_fills_its_segment_to_the_last_byte(lives: Lives, size: int):
    place = lives.write(0, b"x" * size)
    assert lives.segment(place).stat().st_size > place.position + place.length


def test_damage_below_a_mark_is_named_by_every_start(lives: Lives):
    lives.write(0, b"kept")
    hurt = lives.write(1, b"hurt")
    lives.write(2, b"kept")
    path = lives.segment(hurt)
    data = bytearray(path.read_bytes())
    data[hurt.position] ^= 1
    path.write_bytes(data)
    for _ in range(2):
        assert lives.replay() == [0, 2]
        assert path.name in lives.recovered.damage[0]
        assert [(lost.note.base_offset, lost.note.count) for lost in lives.recovered.lost] == [(1, 1)]
        assert data.rstrip(b"\0") == path.read_bytes(), "nothing but the room behind the end was cut"


def test_a_place_whose_segment_was_recycled_is_never_read_as_something_else(lives: Lives):
    old = lives.write(0, b"a" * 3000)
    lives.write(1, b"b" * 3000)
    read = os.pread

    def recycled_meanwhile(fd: int, length: int, position: int) -> bytes:
        lives.journal.release((old.epoch, old.segment))
        lives.write(2, b"c" * 3000)
        return read(fd, length, position)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", recycled_meanwhile)
        with pytest.raises(FileNotFoundError):
            lives.journal.read(old)


def test_the_directory_is_made_with_its_parents(tmp_path: Path):
    journal = LocalJournal(tmp_path / "a" / "b" / "journal", 1)
    assert journal.recover().frames == []
    journal.close(empty=True)
    assert list((tmp_path / "a" / "b" / "journal").iterdir()) == []
