"""Reading by offset and by time, from memory, from the journal and from files."""

from collections.abc import Iterator
from unittest.mock import Mock

import pytest

from delta_log import Log, Record
from delta_log.append.group_commit import Limits
from delta_log.delta.file_commits import remove_files
from delta_log.model.errors import Corruption, LakelogError, OffsetOutOfRange
from tests.support.logs import (
    FROM_FILES,
    QUIET,
    Place,
    everything,
    hold_tables,
    offsets_of,
    replace_settings,
    values_of,
)


@pytest.fixture(params=["memory rows", "journal", "memory arrow", "files", "all of them"])
def filled(request: pytest.FixtureRequest, place: Place) -> Iterator[Log]:
    """Offsets 0 to 29 of partition 0: values are offsets, times rise by 10; wherever they may lie."""
    nothing = Limits(memory_bytes=0)
    settings = {
        "memory rows": QUIET,
        "journal": replace_settings(limits=nothing),
        "memory arrow": QUIET,
        "files": FROM_FILES,
        "all of them": replace_settings(tail_bytes=20_000),
    }[request.param]
    log = place.open(settings)
    log.create_topic("t", config={"message.timestamp.after.max.ms": 2**62})
    hold_tables(log)
    for base in range(0, 30, 3):
        log.append("t", [Record(b"%d" % i, timestamp=10 * i) for i in range(base, base + 3)])
        if request.param in ("memory arrow", "files") or (request.param == "all of them" and base < 21):
            log.flush()
    yield log
    place.close()


def read(log: Log, offset: int, **limits: int) -> list[int]:
    fetched = log.read("t", 0, offset, **limits)  # type: ignore[arg-type]
    found = offsets_of(list(fetched.records()))
    assert fetched.next_offset == (found[-1] + 1 if found else offset)
    assert fetched.count == len(found)
    assert fetched.table().column("offset").to_pylist() == found
    return found


def test_reading_from_any_offset_gives_what_follows(filled: Log):
    assert values_of(filled, "t") == [b"%d" % i for i in range(30)]
    for offset in range(31):
        position, found = offset, list[int]()
        while position < 30:
            found += read(filled, position)
            position = found[-1] + 1
        assert found == list(range(offset, 30))


def test_one_read_has_everything_that_there_is_room_for(filled: Log):
    """Also across the border between what is in files and what is not yet."""
    for offset in range(31):
        assert read(filled, offset) == list(range(offset, 30))
        assert read(filled, offset, max_records=9) == list(range(offset, min(30, offset + 9)))


def test_what_cannot_be_read_hides_nothing_that_lies_before_it(place: Place, monkeypatch: pytest.MonkeyPatch):
    log = place.open(replace_settings(limits=Limits(memory_bytes=0), tail_bytes=0))
    log.create_topic("t")
    hold_tables(log)
    log.append("t", [Record(b"in a file")] * 3)
    log.flush("t")
    log.append("t", [Record(b"in the journal")])
    for error in (Corruption("journal segment 1-0", "it is damaged"), OSError(5, "Input/output error")):
        with monkeypatch.context() as broken:
            broken.setattr(log._running.journal, "read", Mock(side_effect=error))
            assert read(log, 0) == [0, 1, 2]
            with pytest.raises(type(error)):
                log.read("t", 0, 3)
    assert read(log, 0) == [0, 1, 2, 3]
    place.close()


@pytest.mark.parametrize("most", [1, 2, 4, 7, 100])
def test_no_more_records_come_than_were_asked_for(filled: Log, most: int):
    for offset in (0, 1, 5, 28):
        found = read(filled, offset, max_records=most)
        assert 1 <= len(found) <= most
        assert found == list(range(offset, offset + len(found)))


def test_at_least_one_record_comes_however_small_the_limits(filled: Log):
    for offset in (0, 7, 29):
        assert read(filled, offset, max_bytes=0) == [offset]
        assert read(filled, offset, max_records=0) == [offset]
        assert read(filled, offset, max_records=-5, max_bytes=-5) == [offset]


def test_at_the_end_there_is_nothing_and_beyond_it_an_error(filled: Log):
    assert read(filled, 30) == []
    for offset in (31, -1, 2**62):
        with pytest.raises(OffsetOutOfRange) as refused:
            filled.read("t", 0, offset)
        assert (refused.value.offset, refused.value.log_start_offset, refused.value.end_offset) == (offset, 0, 30)


def test_a_time_finds_the_first_record_at_or_after_it(filled: Log):
    for time_ms, offset in ((-1, 0), (0, 0), (1, 1), (10, 1), (149, 15), (150, 15), (151, 16), (290, 29)):
        assert filled.offset_at("t", 0, time_ms) == offset
    for time_ms in (291, 2**53, 2**63, 2**80):
        assert filled.offset_at("t", 0, time_ms) is None
    assert filled.offset_at("t", 0, -(2**80)) == 0


def test_columns_can_be_chosen(filled: Log):
    assert filled.read("t", 0, 28, columns=("value",)).table().to_pydict() == {
        "offset": [28, 29],
        "value": [b"28", b"29"],
    }
    chosen = filled.read("t", 0, 29, columns=("offset", "key", "sequence")).table()
    assert chosen.to_pydict() == {"offset": [29], "key": [None], "sequence": [None]}
    assert filled.read("t", 0, 29, columns=()).table().to_pydict() == {"offset": [29]}


def test_a_scan_ends_where_it_was_told(filled: Log):
    def scanned(start: int, end: int | None) -> list[int]:
        return [record.offset for fetched in filled.scan("t", 0, start, end) for record in fetched.records()]

    assert scanned(0, None) == list(range(30))
    assert scanned(5, 8) == [5, 6, 7]
    assert scanned(8, 5) == []
    assert scanned(25, 1000) == list(range(25, 30))
    assert scanned(29, 30) == [29]


def test_bytes_limit_what_comes(place: Place):
    log = place.open(FROM_FILES)
    log.create_topic("t")
    for flushed in (False, True):
        for _ in range(4):
            log.append("t", [Record(b"x" * 1000)] * 5)
        if flushed:
            log.flush()
        fetched = log.read("t", 0, 0, max_bytes=3500)
        assert 2 <= fetched.count <= 4
    assert log.read("t", 0, 0, max_bytes=10**9).count == 40


def test_headers_count_as_bytes(place: Place):
    log = place.open(FROM_FILES)
    log.create_topic("t")
    for _ in range(2):
        log.append("t", [Record(b"", headers=(("h", b"x" * 1000),))] * 10)
        assert 2 <= log.read("t", 0, 0, max_bytes=3500).count <= 4
        log.flush()


def test_holes_are_stepped_over(place: Place):
    """What was compacted away: the next offset that there is."""
    log = place.open(FROM_FILES)
    log.create_topic("t")
    for i in range(6):
        log.append("t", [Record(b"%d" % i)])
        log.flush()
    live = log._running.catalog.live("t")
    gone = [file for file in live.table.snapshot.files(0) if file.base_offset in (0, 2, 3, 5)]
    remove_files(live.table, live.id, gone, place.clock)
    assert [read_next(log, offset) for offset in range(6)] == [(1, 2), (1, 2), (4, 5), (4, 5), (4, 5), (None, 6)]
    assert offsets_of(everything(log, "t")) == [1, 4]
    assert [record.offset for fetched in log.scan("t", 0, 0, 3) for record in fetched.records()] == [1]
    assert log.append("t", [Record(b"6")]).offsets() == [6]
    assert read_next(log, 5) == (6, 7)


def read_next(log: Log, offset: int) -> tuple[int | None, int]:
    fetched = log.read("t", 0, offset, max_records=1)
    return next((record.offset for record in fetched.records()), None), fetched.next_offset


def test_a_file_that_is_missing_is_named(place: Place):
    log = place.open(FROM_FILES)
    log.create_topic("t")
    log.append("t", [Record(b"v")])
    log.flush()
    path = log._running.catalog.live("t").table.snapshot.files(0)[0].path
    place.root().store.delete(f"topics/t/{path}")
    for use in (lambda: log.read("t", 0, 0), lambda: log.offset_at("t", 0, 0)):
        with pytest.raises(LakelogError, match=path):
            use()
    assert log.append("t", [Record(b"w")]).offsets() == [1]
    log.flush()
    assert [record.value for record in log.read("t", 0, 1).records()] == [b"w"]


def test_what_lies_before_a_file_that_is_missing_can_be_read(place: Place):
    log = place.open(FROM_FILES)
    log.create_topic("t")
    for value in (b"0", b"1", b"2"):
        log.append("t", [Record(value)])
        log.flush()
    path = log._running.catalog.live("t").table.snapshot.files(0)[1].path
    place.root().store.delete(f"topics/t/{path}")
    assert [record.value for record in log.read("t", 0, 0).records()] == [b"0"]
    with pytest.raises(LakelogError, match=path):
        log.read("t", 0, 1)
    assert [record.value for record in log.read("t", 0, 2).records()] == [b"2"]


class Vanishing:
    """A journal whose segments are released the moment that somebody wants to read them."""

    def __init__(self, log: Log) -> None:
        self.log, self.left = log, 2

    def read(self, place: object) -> bytes:
        self.left -= 1
        if not self.left:
            self.log.flush()
        raise FileNotFoundError(place)


def test_records_that_leave_the_journal_while_they_are_read_are_found_in_the_table(place: Place):
    log = place.open(replace_settings(limits=Limits(memory_bytes=0), tail_bytes=0))
    log.create_topic("t")
    hold_tables(log)
    log.append("t", [Record(b"%d" % i, timestamp=i) for i in range(3)])
    log._reader._journal = Vanishing(log)
    assert [record.value for record in log.read("t", 0, 1).records()] == [b"1", b"2"]
    log._reader._journal = log._running.journal
    log.append("t", [Record(b"3", timestamp=3)])
    log._reader._journal = Vanishing(log)
    assert log.offset_at("t", 0, 3) == 3


def test_a_search_by_time_does_not_jump_over_what_is_let_go_meanwhile(place: Place):
    log = place.open(replace_settings(tail_bytes=10**6))
    log.create_topic("t")
    hold_tables(log)
    for i in range(2):
        log.append("t", [Record(b"v", timestamp=i)])
        log.flush()
    tail = log._running.catalog.live("t").tails[0]
    real = tail.chunks_from

    def let_go_first(offset: int, count: int) -> object:
        tail.drop_below(1)
        return real(offset, count)

    tail.chunks_from = let_go_first  # type: ignore[method-assign, assignment]
    assert log.offset_at("t", 0, 0) == 0
