"""What the log may rely on, whichever journal it is given."""

import uuid
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from delta_log.journal import Journal, LocalJournal, MemoryJournal
from delta_log.journal.group_format import Frame, Place, checksum
from delta_log.journal.objects import ObjectJournal
from delta_log.records.payload_kinds import ROWS
from delta_log.stores import MemoryStore, Store
from delta_log.stores.objects import ObjectStore

Open = Callable[[], Journal]


@pytest.fixture(params=["local", "memory", "objects", "s3"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens the journal of a further life each time it is called."""
    epochs, lives = count(1), []
    memory = MemoryJournal()
    store: Store = MemoryStore()
    if request.param == "s3":
        server = request.getfixturevalue("s3_server")
        store = ObjectStore(server.root(f"journal-{uuid.uuid4().hex}"), server.options)

    def open_next() -> Journal:
        epoch = next(epochs)
        if request.param == "memory":
            memory.epoch = epoch
            return memory
        if request.param == "local":
            lives.append(LocalJournal(tmp_path / "journal", epoch, segment_size=4096))
        else:
            lives.append(ObjectJournal(store, epoch, newest_epoch=lambda: epoch, linger_ms=0))
        return lives[-1]

    yield open_next
    for life in lives:
        life.close(empty=False)


def group(*payloads: bytes, base: int = 0) -> tuple[list[Frame], list[bytes]]:
    frames = [
        Frame(ROWS, "orders", "id", 0, base + index, 1, 1, len(payload), checksum(payload), 5, ("producer", 3))
        for index, payload in enumerate(payloads)
    ]
    return frames, list(payloads)


def write(journal: Journal, *payloads: bytes, base: int = 0) -> list[Place]:
    return journal.append(*group(*payloads, base=base))


def found(journal: Journal) -> list[tuple[Frame, bytes]]:
    recovered = journal.recover()
    assert (recovered.lost, recovered.damage, recovered.torn, recovered.untraceable) == ([], [], [], [])
    assert all(item.sound for item in recovered.frames)
    return [(item.frame, journal.read(item.place)) for item in recovered.frames]


def test_a_new_journal_holds_nothing(opened: Open):
    journal = opened()
    assert found(journal) == []
    assert journal.segments() == []


def test_what_was_appended_is_read_by_its_place(opened: Open):
    journal = opened()
    journal.recover()
    first, second = write(journal, b"a", b""), write(journal, b"c" * 3000, base=2)
    assert [journal.read(place) for place in (*first, *second)] == [b"a", b"", b"c" * 3000]


def test_memory_that_is_lent_is_copied(opened: Open):
    journal = opened()
    journal.recover()
    lent = bytearray(b"before")
    frames, _ = group(bytes(lent))
    (place,) = journal.append(frames, [memoryview(lent)])
    lent[:] = b"after!"
    assert journal.read(place) == b"before"


def test_the_next_life_recovers_all_groups_in_the_order_in_which_they_were_written(opened: Open):
    journal = opened()
    journal.recover()
    groups = [group(b"%d" % number * 400, b"", base=2 * number) for number in range(20)]
    for frames, payloads in groups:
        journal.append(frames, payloads)
    journal.close(empty=False)
    expected = [pair for frames, payloads in groups for pair in zip(frames, payloads, strict=True)]
    assert found(opened()) == expected


def test_every_life_s_groups_are_kept_until_they_are_released(opened: Open):
    for number in range(3):
        journal = opened()
        assert [payload for _, payload in found(journal)] == [b"%d" % n for n in range(number)]
        write(journal, b"%d" % number, base=number)
        journal.close(empty=False)


def test_recovered_segments_are_closed_and_oldest_first(opened: Open):
    for number in range(2):
        journal = opened()
        journal.recover()
        for part in range(3):
            write(journal, b"%d" % number * 3000, base=part)
        journal.close(empty=False)
    journal = opened()
    journal.recover()
    assert journal.segments() == sorted(journal.segments())
    assert {epoch for epoch, _ in journal.segments()} == {1, 2}


def test_the_segment_that_is_being_written_cannot_be_released(opened: Open):
    """Else what was appended a moment ago goes before anybody has noted that a table waits for it."""
    journal = opened()
    journal.recover()
    (place,) = write(journal, b"newest")
    assert (place.epoch, place.segment) not in journal.segments()
    journal.release((place.epoch, place.segment))
    assert journal.read(place) == b"newest"


def test_a_released_segment_is_gone_for_good(opened: Open):
    journal = opened()
    journal.recover()
    (old,) = write(journal, b"x" * 3000)
    (young,) = write(journal, b"y" * 3000, base=1)
    segment = (old.epoch, old.segment)
    assert segment in journal.segments()
    journal.release(segment)
    journal.release(segment)
    assert segment not in journal.segments()
    with pytest.raises(FileNotFoundError):
        journal.read(old)
    assert journal.read(young) == b"y" * 3000
    journal.close(empty=False)
    assert [payload for _, payload in found(opened())] == [b"y" * 3000]


def test_a_segment_set_aside_is_kept_but_never_replayed(opened: Open):
    journal = opened()
    journal.recover()
    (old,) = write(journal, b"x" * 3000)
    write(journal, b"y" * 3000, base=1)
    journal.release((old.epoch, old.segment), aside=True)
    assert (old.epoch, old.segment) not in journal.segments()
    journal.close(empty=False)
    assert [payload for _, payload in found(opened())] == [b"y" * 3000]


def test_closed_empty_it_leaves_nothing_to_replay(opened: Open):
    journal = opened()
    journal.recover()
    for number in range(5):
        write(journal, b"x" * 3000, base=number)
    journal.close(empty=True)
    again = opened()
    assert found(again) == []
    assert again.segments() == []


def test_a_group_may_be_larger_than_everything_before(opened: Open):
    journal = opened()
    journal.recover()
    write(journal, b"small")
    (large,) = write(journal, b"L" * 100_000, base=1)
    write(journal, b"small again", base=2)
    assert journal.read(large) == b"L" * 100_000
    journal.close(empty=False)
    assert [len(payload) for _, payload in found(opened())] == [5, 100_000, 11]
