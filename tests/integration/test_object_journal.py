"""What only a journal of numbered objects does: damage in the middle of it, owners who slept, and its pace."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from delta_log.journal import Recovered, objects
from delta_log.journal.group_format import Frame, checksum
from delta_log.journal.object_scan import FENCE, encode_object, object_name
from delta_log.journal.objects import ObjectJournal
from delta_log.model.errors import NotOwner, OutcomeUnknown, StorageRefused
from delta_log.records.payload_kinds import ROWS
from delta_log.stores import MemoryStore
from delta_log.stores.protocol import Blob


class Lives:
    """A bucket, and the lives of journals in it, one after the other or beside each other."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.epoch = 0
        self.journals: list[ObjectJournal] = []

    def begin(self, *, linger_ms: int = 0) -> tuple[ObjectJournal, Recovered]:
        self.epoch += 1
        journal = ObjectJournal(self.store, self.epoch, newest_epoch=lambda: self.epoch, linger_ms=linger_ms)
        self.journals.append(journal)
        return journal, journal.recover()

    def close(self) -> None:
        for journal in self.journals:
            journal.close(empty=False)

    def flip(self, number: int, at: int) -> None:
        data = bytearray(self.store.read(path(number)))
        data[at] ^= 1
        self.store.put(path(number), data)


@pytest.fixture
def lives() -> Iterator[Lives]:
    made = Lives()
    yield made
    made.close()


def path(number: int) -> str:
    return f"journal/{object_name(number)}"


def write(journal: ObjectJournal, *offsets: int) -> None:
    for offset in offsets:
        payload = b"%d" % offset
        frame = Frame(ROWS, "t", "id", 0, offset, 1, 1, len(payload), checksum(payload), 5)
        journal.append([frame], [payload])


def offsets_of(recovered: Recovered) -> list[int]:
    return [item.frame.base_offset for item in recovered.frames if item.sound]


def lost_of(recovered: Recovered) -> list[int]:
    return [lost.note.base_offset for lost in recovered.lost]


@pytest.mark.parametrize("at", [10, 90, -1], ids=["header", "directory", "payload"])
def test_a_damaged_group_is_named_and_its_offsets_are_known(lives: Lives, at: int):
    journal, _ = lives.begin()
    write(journal, 0, 1, 2)
    lives.flip(2, at)
    _, found = lives.begin()
    assert (offsets_of(found), lost_of(found), found.untraceable) == ([0, 2], [1], [])
    assert object_name(2) in found.damage[0]


def test_the_offsets_of_the_last_group_are_known_from_the_fence_behind_it(lives: Lives):
    journal, _ = lives.begin()
    write(journal, 0, 1)
    lives.begin()
    lives.flip(2, 10)
    _, found = lives.begin()
    assert (offsets_of(found), lost_of(found), found.untraceable) == ([0], [1], [])


def test_a_last_group_that_nobody_can_read_is_named_by_every_later_start(lives: Lives):
    journal, _ = lives.begin()
    write(journal, 0, 1)
    lives.flip(2, 10)
    for _ in range(2):
        _, found = lives.begin()
        assert found.untraceable == [f"journal object {object_name(2)}"]


def test_a_damaged_fence_costs_nothing_and_is_named_wherever_it_is_damaged(lives: Lives):
    journal, _ = lives.begin()
    write(journal, 0)
    fence = lives.store.read(path(0))
    for at in range(len(fence)):
        lives.flip(0, at)
        _, found = lives.begin()
        assert object_name(0) in found.damage[0], at
        lives.store.put(path(0), fence)
    lives.flip(0, 10)
    _, found = lives.begin()
    assert (offsets_of(found), lost_of(found), found.untraceable) == ([0], [], [])
    assert object_name(0) in found.damage[0]


def test_whoever_slept_through_so_many_openings_that_his_number_is_free_looks_at_the_owners(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(objects, "KEPT_FENCES", 1)
    journal, _ = lives.begin()
    write(journal, 0)
    for _ in range(3):
        lives.begin()
    with pytest.raises(FileNotFoundError):
        lives.store.read(path(2))
    monkeypatch.setattr(objects, "_SILENT_S", -1.0)
    with pytest.raises(NotOwner):
        write(journal, 1)
    with pytest.raises(FileNotFoundError):
        lives.store.read(path(2))


def test_a_fence_of_somebody_earlier_that_comes_late_is_stepped_over(lives: Lives):
    lives.begin()
    journal, _ = lives.begin()
    write(journal, 0)
    late, _ = encode_object(3, FENCE, life=7, epoch=1, previous=[])
    assert lives.store.create(path(3), late)
    write(journal, 1, 2)
    _, found = lives.begin()
    assert (offsets_of(found), found.damage) == ([0, 1, 2], [])


def test_after_a_clean_stop_only_a_fence_and_a_void_are_left(lives: Lives):
    journal, _ = lives.begin()
    write(journal, 0, 1, 2)
    journal.close(empty=True)
    assert [entry.name for entry in lives.store.list("journal")] == [object_name(0), object_name(4)]
    again, found = lives.begin()
    assert (found.segments, offsets_of(found)) == (0, [])
    again.close(empty=True)
    assert [entry.name for entry in lives.store.list("journal")] == [object_name(number) for number in (0, 4, 5)]


class Unreachable(MemoryStore):
    """Creations are lost while it is."""

    def __init__(self) -> None:
        super().__init__()
        self.away = False
        self.lost: list[tuple[str, bytes]] = []

    def create(self, path: str, data: Blob) -> bool:
        if self.away:
            self.lost.append((path, bytes(data)))
            raise OutcomeUnknown(path, "the test says so")
        return super().create(path, data)


def test_while_a_write_is_in_doubt_others_are_refused_and_afterwards_it_does_not_count(lives: Lives):
    store = lives.store = Unreachable()
    journal, _ = lives.begin()
    write(journal, 0)
    store.away = True
    with pytest.raises(OutcomeUnknown):
        write(journal, 1)
    for _ in range(2):
        with pytest.raises(StorageRefused, match="in doubt"):
            write(journal, 1)
    store.away = False
    write(journal, 1)
    _, found = lives.begin()
    assert offsets_of(found) == [0, 1]


@pytest.mark.parametrize("away", [False, True], ids=["the store is back", "it is away still"])
def test_a_write_that_comes_when_its_owner_has_stopped_does_not_come_behind_the_fence_of_the_next(
    lives: Lives, away: bool
):
    store = lives.store = Unreachable()
    journal, _ = lives.begin()
    write(journal, 0)
    store.away = True
    with pytest.raises(OutcomeUnknown):
        write(journal, 1)
    store.away = away
    journal.close(empty=True)
    store.away = False
    again, _ = lives.begin()
    late, data = store.lost[0]
    assert not store.create(late, data)
    write(again, 1)
    _, found = lives.begin()
    assert offsets_of(found) == ([0, 1] if away else [1])


def test_groups_follow_each_other_no_faster_than_they_linger(lives: Lives):
    journal, _ = lives.begin(linger_ms=40)
    began = time.monotonic()
    for offset in (0, 1, 2):
        journal.pace()
        write(journal, offset)
    assert time.monotonic() - began >= 0.07


def test_what_is_kept_at_hand_of_the_journal_is_bounded(lives: Lives, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(objects, "_KEPT_BYTES", 1000)
    journal, _ = lives.begin()
    write(journal, *range(50))
    again, found = lives.begin()
    assert [again.read(item.place) for item in found.frames] == [b"%d" % number for number in range(50)]
    assert again._bodies_size == sum(map(len, again._bodies.values())) <= 1000
